/* Loaded into a process before the C library: beside a folder `state` a folder `synced` holds what its
 * files held when they were synced last, so what a cut of the power may leave of each is known. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH 4200

#define RENAMED ".renamed." /* what a new name will hold, once the folder is synced */

/* Finds `folder/state/name` of a path that ends with "/", whose name is empty for the folder itself. */
static int split(const char *path, char *folder, char *name) {
  const char *state = strstr(path, "/state/");
  if (!state) return 0;
  snprintf(folder, PATH, "%.*s", (int)(state - path), path);
  const char *rest = state + strlen("/state/"), *end = strchr(rest, '/');
  if (*rest && (!end || end[1])) return 0; /* a file of a folder below */
  snprintf(name, PATH, "%.*s", end ? (int)(end - rest) : 0, rest);
  return strcmp(name, "sandbox.jsonl") != 0; /* the broker's own */
}

/* Finds the same of an open file. */
static int place_of(int file, char *folder, char *name) {
  char link[64], path[PATH];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 2);
  if (length <= 0) return 0;
  path[length] = 0;
  strcat(path, "/");
  return split(path, folder, name);
}

static void copy(const char *from, const char *to) {
  char part[65536];
  ssize_t got = 0;
  int source = open(from, O_RDONLY | O_CLOEXEC), made = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  while (source >= 0 && made >= 0 && (got = read(source, part, sizeof part)) > 0)
    if (write(made, part, got) != got) break;
  if (source >= 0) close(source);
  if (made >= 0) close(made);
}

/* A folder that is synced keeps its names: also of files that were not, and none that are gone. */
static void keep_names(const char *folder) {
  char path[2 * PATH], other[2 * PATH];
  snprintf(path, sizeof path, "%s/synced", folder);
  DIR *kept = opendir(path);
  struct dirent *file;
  while (kept && (file = readdir(kept))) {
    if (strncmp(file->d_name, RENAMED, strlen(RENAMED))) continue;
    snprintf(path, sizeof path, "%s/synced/%s", folder, file->d_name);
    snprintf(other, sizeof other, "%s/synced/%s", folder, file->d_name + strlen(RENAMED));
    rename(path, other);
  }
  if (kept) closedir(kept);
  const char *sides[2][2] = {{"state", "synced"}, {"synced", "state"}};
  for (int side = 0; side < 2; side++) {
    snprintf(path, sizeof path, "%s/%s", folder, sides[side][0]);
    DIR *listed = opendir(path);
    struct dirent *each;
    while (listed && (each = readdir(listed))) {
      if (each->d_type != DT_REG || each->d_name[0] == '.') continue;
      snprintf(other, sizeof other, "%s/%s/%s", folder, sides[side][1], each->d_name);
      snprintf(path, sizeof path, "%s/%s/%s", folder, sides[side][0], each->d_name);
      if (access(other, F_OK)) side ? unlink(path) : close(open(other, O_WRONLY | O_CREAT, 0600));
    }
    if (listed) closedir(listed);
  }
}

static int sync_by(int (*real)(int), int file) {
  char folder[PATH], name[PATH], open_file[64], held[2 * PATH + 64], kept[2 * PATH + 64];
  if (!place_of(file, folder, name)) return real(file);
  if (!*name) {
    int done = real(file);
    if (!done) keep_names(folder);
    return done;
  }
  snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", file);
  snprintf(held, sizeof held, "%s/synced/.%ld", folder, syscall(SYS_gettid));
  snprintf(kept, sizeof kept, "%s/synced/%s", folder, name);
  copy(open_file, held); /* what is written from here on need not be on the disk when it returns */
  int done = real(file);
  if (!done) rename(held, kept);
  return done;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

int fsync(int file) { REAL(fsync); return sync_by(real, file); }
int fdatasync(int file) { REAL(fdatasync); return sync_by(real, file); }

/* A file that was not synced before it got its new name may be empty under it. */
int rename(const char *old, const char *new) {
  REAL(rename);
  char whole[PATH], folder[PATH], name[PATH], from[3 * PATH], to[3 * PATH];
  int done = real(old, new);
  snprintf(whole, sizeof whole, "%s/", old);
  if (done || !split(whole, folder, name) || !*name) return done;
  snprintf(from, sizeof from, "%s/synced/%s", folder, name);
  snprintf(whole, sizeof whole, "%s/", new);
  if (!split(whole, folder, name) || !*name) return done;
  snprintf(to, sizeof to, "%s/synced/" RENAMED "%s", folder, name);
  copy(from, to);
  return done;
}
