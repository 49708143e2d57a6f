/* Fails the n-th system call that writes below one folder: open to write, write, fsync, rename and their kin.
   Loaded with LD_PRELOAD; armed by fault_arm() from Python. With `on` every later call fails as well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static long left = 0, seen = 0;
static int error_number = 0, fired = 0, on = 0, armed = 0;

void fault_arm(const char *folder, long n, int number, int persistent) {
    strncpy(root, folder, sizeof root - 1);
    left = n; seen = 0; error_number = number; fired = 0; on = persistent; armed = 1;
}
void fault_disarm(void) { armed = 0; }
long fault_seen(void) { return seen; }
int fault_fired(void) { return fired; }

static int fails(void) {
    seen++;
    if ((left > 0 && seen == left) || (on && fired)) { fired = 1; errno = error_number; return 1; }
    return 0;
}
static int below(const char *path) { return armed && path && strncmp(path, root, strlen(root)) == 0; }
static int owned(int fd) {
    char link[64], path[PATH_MAX];
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}
#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define WRITES(flags) ((flags) & (O_WRONLY | O_RDWR | O_CREAT))
#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, mode_t); va_end(a); }

int open(const char *path, int flags, ...) { MODE REAL(open); if (WRITES(flags) && below(path) && fails()) return -1; return real(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE REAL(open64); if (WRITES(flags) && below(path) && fails()) return -1; return real(path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE REAL(openat); if (WRITES(flags) && below(path) && fails()) return -1; return real(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE REAL(openat64); if (WRITES(flags) && below(path) && fails()) return -1; return real(at, path, flags, mode); }
ssize_t write(int fd, const void *data, size_t n) { REAL(write); if (owned(fd) && fails()) return -1; return real(fd, data, n); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { REAL(pwrite); if (owned(fd) && fails()) return -1; return real(fd, data, n, at); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) { REAL(pwrite64); if (owned(fd) && fails()) return -1; return real(fd, data, n, at); }
ssize_t writev(int fd, const struct iovec *v, int n) { REAL(writev); if (owned(fd) && fails()) return -1; return real(fd, v, n); }
int fsync(int fd) { REAL(fsync); if (owned(fd) && fails()) return -1; return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); if (owned(fd) && fails()) return -1; return real(fd); }
int ftruncate(int fd, off_t n) { REAL(ftruncate); if (owned(fd) && fails()) return -1; return real(fd, n); }
int ftruncate64(int fd, off64_t n) { REAL(ftruncate64); if (owned(fd) && fails()) return -1; return real(fd, n); }
int rename(const char *from, const char *to) { REAL(rename); if (below(to) && fails()) return -1; return real(from, to); }
int renameat(int a, const char *from, int b, const char *to) { REAL(renameat); if (below(to) && fails()) return -1; return real(a, from, b, to); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); if (below(path) && fails()) return -1; return real(path, mode); }
