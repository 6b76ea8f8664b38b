// Datasets are mapped files. If a page can't be read (the file was truncated or overwritten while in use, or its disk or network failed),
// the kernel sends SIGBUS in the middle of a load, and the program can't recover from that.
#pragma once

namespace dlpipe::data {

/// From the first call on, a SIGBUS in a mapped data.mdb prints its file and what to do on stderr. Then, and for any other SIGBUS, the
/// former handler is called, or the process ends by SIGBUS. Any thread.
void explain_bus_errors();

}  // namespace dlpipe::data
