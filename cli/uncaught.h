// Errors that nobody can catch: oneTBB starts its workers where no exception may leave, and throws when the system
// gives no more threads. Nothing goes on from there, but the user is told what it was.
#pragma once

namespace dlpipe::cli {

/// From now on what would end the program by std::terminate says why on stderr and exits with 1. Main thread, once.
void explain_uncaught_errors();

}  // namespace dlpipe::cli
