// Loaded into a program with LD_PRELOAD: lets the n-th file-system call of a kind fail, do half of its work, or be
// the last thing that the program does. The environment says which:
//
//   DLPIPE_FAULT        kill: SIGKILL before the call, or, for a write, in the middle of it
//                       EIO, ENOSPC, EINTR, EMFILE, ENOMEM: the call fails with it
//                       short: a read or write does half of what was asked
//                       none: only counts
//   DLPIPE_FAULT_AT     n, from 1
//   DLPIPE_FAULT_COUNT  a file for the number of calls that would have counted, written when the program ends
//   DLPIPE_FAULT_PLAIN  set: renameat2 knows no flags, as on file systems without them
//
// Which calls count: for kill and ENOSPC those that change files, for EIO and EINTR reads too, for short reads and
// writes, for EMFILE those that open, for ENOMEM those that map a file. Standard streams never count. Memory that
// isn't a file's doesn't either: oneDNN 2.6 takes a null pointer for its code where mmap gives it none.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <vector>

namespace {

enum Kind : unsigned { kRead = 1, kWrite = 2, kChange = 4, kOpen = 8, kMap = 16 };

struct Plan {
  unsigned kinds = 0;
  int error_number = 0;
  bool kills = false;
  bool halves = false;
  long at = -1;
};

Plan read_plan() {
  struct Row {
    const char* name;
    unsigned kinds;
    int error_number;
  };
  constexpr Row kRows[] = {
      {"kill", kWrite | kChange, 0},
      {"none", kWrite | kChange, 0},
      {"short", kRead | kWrite, 0},
      {"EIO", kRead | kWrite | kChange, EIO},
      {"ENOSPC", kWrite | kChange, ENOSPC},
      {"EINTR", kRead | kWrite | kChange, EINTR},
      {"EMFILE", kOpen, EMFILE},
      {"ENOMEM", kMap, ENOMEM},
  };
  Plan plan;
  const char* const name = getenv("DLPIPE_FAULT");
  const char* const at = getenv("DLPIPE_FAULT_AT");
  for (const Row& row : kRows) {
    if (name == nullptr || strcmp(name, row.name) != 0) continue;
    plan.kinds = row.kinds;
    plan.error_number = row.error_number;
    plan.kills = strcmp(name, "kill") == 0;
    plan.halves = strcmp(name, "short") == 0;
  }
  if (at != nullptr) plan.at = atol(at);
  return plan;
}

const Plan& plan() {
  static const Plan read = read_plan();
  return read;
}

std::atomic<long> calls{0};

/// What the call at hand has to do.
enum class Turn { kPass, kFail, kHalf };

Turn take_turn(unsigned kinds, int fd = -1) {
  if ((plan().kinds & kinds) == 0 || (fd >= 0 && fd <= STDERR_FILENO)) return Turn::kPass;
  if (++calls != plan().at) return Turn::kPass;
  if (plan().kills && (kinds & kWrite) == 0) raise(SIGKILL);
  if (plan().kills || plan().halves) return Turn::kHalf;
  if (plan().error_number == 0) return Turn::kPass;
  errno = plan().error_number;
  return Turn::kFail;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct CountWriter {
  ~CountWriter() {
    const char* const file = getenv("DLPIPE_FAULT_COUNT");
    if (file == nullptr) return;
    static auto* const real_open = next<int(const char*, int, ...)>("open");
    const int fd = real_open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dprintf(fd, "%ld\n", calls.load());
    ::close(fd);
  }
} count_writer;

size_t half(size_t count) {
  return count > 1 ? count / 2 : count;
}

unsigned kinds_of_open(int flags) {
  return kOpen | ((flags & (O_CREAT | O_TRUNC)) != 0 ? kChange : 0U);
}

}  // namespace

// A call of fixed arguments that changes files and answers -1 when it fails.
#define CHANGING_CALL(name, parameters, arguments)         \
  extern "C" int name parameters {                         \
    static auto* const real = next<int parameters>(#name); \
    if (take_turn(kChange) == Turn::kFail) return -1;      \
    return real arguments;                                 \
  }

CHANGING_CALL(rename, (const char* from, const char* to), (from, to))
CHANGING_CALL(symlink, (const char* target, const char* path), (target, path))
CHANGING_CALL(link, (const char* from, const char* to), (from, to))
CHANGING_CALL(unlink, (const char* path), (path))
CHANGING_CALL(unlinkat, (int directory, const char* path, int flags), (directory, path, flags))
CHANGING_CALL(rmdir, (const char* path), (path))
CHANGING_CALL(remove, (const char* path), (path))
CHANGING_CALL(mkdir, (const char* path, mode_t mode), (path, mode))
CHANGING_CALL(truncate, (const char* path, off_t size), (path, size))
CHANGING_CALL(truncate64, (const char* path, off_t size), (path, size))
CHANGING_CALL(ftruncate, (int fd, off_t size), (fd, size))
CHANGING_CALL(ftruncate64, (int fd, off_t size), (fd, size))
CHANGING_CALL(fsync, (int fd), (fd))
CHANGING_CALL(fdatasync, (int fd), (fd))
CHANGING_CALL(msync, (void* begin, size_t size, int flags), (begin, size, flags))

extern "C" int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  if (flags != 0 && getenv("DLPIPE_FAULT_PLAIN") != nullptr) {
    errno = EINVAL;
    return -1;
  }
  if (take_turn(kChange) == Turn::kFail) return -1;
  return real(a, from, b, to, flags);
}

#define OPENING_CALL(name)                                                 \
  extern "C" int name(const char* path, int flags, ...) {                  \
    static auto* const real = next<int(const char*, int, ...)>(#name);     \
    va_list list;                                                          \
    va_start(list, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                          \
    if (take_turn(kinds_of_open(flags)) == Turn::kFail) return -1;         \
    return real(path, flags, mode);                                        \
  }
OPENING_CALL(open)
OPENING_CALL(open64)

#define OPENING_AT_CALL(name)                                               \
  extern "C" int name(int directory, const char* path, int flags, ...) {    \
    static auto* const real = next<int(int, const char*, int, ...)>(#name); \
    va_list list;                                                           \
    va_start(list, flags);                                                  \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;  \
    va_end(list);                                                           \
    if (take_turn(kinds_of_open(flags)) == Turn::kFail) return -1;          \
    return real(directory, path, flags, mode);                              \
  }
OPENING_AT_CALL(openat)
OPENING_AT_CALL(openat64)

#define STREAM_CALL(name)                                                                  \
  extern "C" FILE* name(const char* path, const char* mode) {                              \
    static auto* const real = next<FILE*(const char*, const char*)>(#name);                \
    if (take_turn(kOpen | (mode[0] == 'r' ? 0U : kChange)) == Turn::kFail) return nullptr; \
    return real(path, mode);                                                               \
  }
STREAM_CALL(fopen)
STREAM_CALL(fopen64)

#define TRANSFER_CALL(name, kind, pointer, extra, more)                                  \
  extern "C" ssize_t name(int fd, pointer data, size_t count extra) {                    \
    static auto* const real = next<ssize_t(int, pointer, size_t extra)>(#name);          \
    const Turn turn = take_turn(kind, fd);                                               \
    if (turn == Turn::kFail) return -1;                                                  \
    const ssize_t done = real(fd, data, turn == Turn::kHalf ? half(count) : count more); \
    if (turn == Turn::kHalf && plan().kills) raise(SIGKILL);                             \
    return done;                                                                         \
  }
#define COMMA ,
TRANSFER_CALL(read, kRead, void*, , )
TRANSFER_CALL(write, kWrite, const void*, , )
TRANSFER_CALL(pread, kRead, void*, COMMA off_t at, COMMA at)
TRANSFER_CALL(pread64, kRead, void*, COMMA off_t at, COMMA at)
TRANSFER_CALL(pwrite, kWrite, const void*, COMMA off_t at, COMMA at)
TRANSFER_CALL(pwrite64, kWrite, const void*, COMMA off_t at, COMMA at)

namespace {

/// The first half of the bytes of `parts`.
std::vector<struct iovec> half_of(const struct iovec* parts, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  size_t left = half(bytes);
  std::vector<struct iovec> cut;
  for (int i = 0; i < count && left > 0; ++i) {
    cut.push_back({parts[i].iov_base, std::min(left, parts[i].iov_len)});
    left -= cut.back().iov_len;
  }
  return cut;
}

}  // namespace

#define VECTOR_CALL(name, extra, more)                                                   \
  extern "C" ssize_t name(int fd, const struct iovec* parts, int count extra) {          \
    static auto* const real = next<ssize_t(int, const struct iovec*, int extra)>(#name); \
    const Turn turn = take_turn(kWrite, fd);                                             \
    if (turn == Turn::kFail) return -1;                                                  \
    if (turn == Turn::kPass) return real(fd, parts, count more);                         \
    const std::vector<struct iovec> cut = half_of(parts, count);                         \
    const ssize_t done = real(fd, cut.data(), static_cast<int>(cut.size()) more);        \
    if (plan().kills) raise(SIGKILL);                                                    \
    return done;                                                                         \
  }
VECTOR_CALL(writev, , )
VECTOR_CALL(pwritev, COMMA off_t at, COMMA at)
VECTOR_CALL(pwritev64, COMMA off_t at, COMMA at)

#define MAPPING_CALL(name)                                                                      \
  extern "C" void* name(void* hint, size_t size, int protection, int flags, int fd, off_t at) { \
    static auto* const real = next<void*(void*, size_t, int, int, int, off_t)>(#name);          \
    if (fd >= 0 && take_turn(kMap) == Turn::kFail) return MAP_FAILED;                           \
    return real(hint, size, protection, flags, fd, at);                                         \
  }
MAPPING_CALL(mmap)
MAPPING_CALL(mmap64)
