"""Paper mode, and the sandbox alone as a server."""
