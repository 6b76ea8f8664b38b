// Datasets are mapped files: where a page can't be had (the file was cut short or replaced while it was in
// use, its disk or network failed), the kernel sends SIGBUS in the middle of a load. No state survives that,
// but the user is told what it was.
#pragma once

namespace dlpipe::cli {

/// From now on SIGBUS says why on stderr before it ends the program. Main thread, once.
void explain_bus_errors();

}  // namespace dlpipe::cli
