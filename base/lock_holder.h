// Locks of flock(): who holds one that this process can't have, for messages (what Linux says in /proc), and their end. Any thread.
#pragma once

#include <sys/types.h>

#include <string>

namespace dlpipe {

/// "process 4711 (dlpipe)" for the file that `fd` has open; "another process" where the system doesn't say: the holder is on
/// another machine or in another container, or has just let go.
std::string lock_holder(int fd);

/// Closes `fd`, whose lock `process` took. In that process the lock ends, which closing alone doesn't do while a forked child has
/// the same file open.
void close_locked(int fd, pid_t process);

}  // namespace dlpipe
