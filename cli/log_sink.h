// Sends base/log.h to stderr through spdlog, with the level in front; DLPIPE_LOG=debug|info|warning|error
// sets the least level printed (default info; with --quiet warning).
#pragma once

namespace dlpipe::cli {
/// Once, after set_output. The first process of several warns of a DLPIPE_LOG that is no level.
void install_log_sink(bool is_first_process);
}  // namespace dlpipe::cli
