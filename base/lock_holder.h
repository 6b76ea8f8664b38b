// Who holds a lock of flock() that this process can't have, for messages. Reads what Linux says in /proc. Any thread.
#pragma once

#include <string>

namespace dlpipe {

/// "process 4711 (dlpipe)" for the file that `fd` has open; "another process" where the system doesn't say: the holder is on
/// another machine or in another container, or has just let go.
std::string lock_holder(int fd);

}  // namespace dlpipe
