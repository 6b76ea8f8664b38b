#include "dlpipe/base/lock_holder.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "dlpipe/base/text.h"

namespace dlpipe {

// "1: FLOCK  ADVISORY  WRITE 4711 fe:00:408224 0 EOF" (proc_locks(5)); the device in hexadecimal.
std::string lock_holder(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return "another process";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    long pid = 0;
    unsigned major = 0, minor = 0;
    unsigned long inode = 0;
    constexpr int kFields = 4;
    if (std::sscanf(line.c_str(), "%*d: FLOCK %*s WRITE %ld %x:%x:%lu", &pid, &major, &minor, &inode) !=
        kFields)
      continue;
    if (pid <= 0 || inode != file.st_ino || major != gnu_dev_major(file.st_dev) ||
        minor != gnu_dev_minor(file.st_dev))
      continue;
    std::ifstream name_file(concat("/proc/", pid, "/comm"));
    std::string name;
    std::getline(name_file, name);
    return name.empty() ? concat("process ", pid) : concat("process ", pid, " (", name, ")");
  }
  return "another process";
}

void close_locked(int fd, pid_t process) {
  if (::getpid() == process) (void)::flock(fd, LOCK_UN);
  ::close(fd);
}

}  // namespace dlpipe
