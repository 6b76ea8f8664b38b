// Sends base/log.h to stderr through spdlog, with the level in front; DLPIPE_LOG=debug|info|warning|error
// sets the least level printed (default info).
#pragma once

namespace dlpipe::cli {
void install_log_sink();
}
