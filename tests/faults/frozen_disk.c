/* Loaded into a process before the C library: while a file FROZEN lies beside a folder `state`, what
 * would change a file in that folder does not return, as on a disk that has gone away. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static void hold(const char *path) {
  const char *state = strstr(path, "/state/");
  char flag[4096];
  if (!state || state - path > 4000) return;
  snprintf(flag, sizeof flag, "%.*s/FROZEN", (int)(state - path), path);
  while (syscall(SYS_faccessat, AT_FDCWD, flag, 0) == 0) usleep(20000);
}

static void hold_file(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length > 0) {
    path[length] = 0;
    hold(path);
  }
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *data, size_t size) { REAL(write); hold_file(file); return real(file, data, size); }
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) { REAL(pwrite64); hold_file(file); return real(file, data, size, at); }
int fsync(int file) { REAL(fsync); hold_file(file); return real(file); }
int fdatasync(int file) { REAL(fdatasync); hold_file(file); return real(file); }
int ftruncate64(int file, off64_t size) { REAL(ftruncate64); hold_file(file); return real(file, size); }
int unlink(const char *path) { REAL(unlink); hold(path); return real(path); }
int rename(const char *from, const char *to) { REAL(rename); hold(from); return real(from, to); }

int open64(const char *path, int flags, ...) {
  REAL(open64);
  va_list rest;
  va_start(rest, flags);
  mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if (flags & O_TRUNC || (flags & O_CREAT && access(path, F_OK))) hold(path);
  return real(path, flags, mode);
}
