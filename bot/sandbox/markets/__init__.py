"""Where other people's orders come from: crowd, order flow, recorded days, a mirrored market."""
