// The kernels.json of a run directory: kernel_table() with a checksum, as another choice would change the last bits
// of a resumed run without a word.
#pragma once

#include <string>

#include "dlpipe/base/error.h"

namespace dlpipe::run {

/// Writes what kernel_table() holds now.
Status save_kernels(const std::string& file);
/// Adds what save_kernels() wrote to kernel_table(). kCorrupt when the file was changed since; nothing is taken.
Status load_kernels(const std::string& file);

}  // namespace dlpipe::run
