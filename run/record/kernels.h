// The kernels that a run chose (its kernels.json), and those that were measured on this machine.
//
// Whether runs measure their kernels, and where the results are stored on this machine.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "dlpipe/error.h"
#include "run/config/values.h"

namespace dlpipe::run {

/// Where choices measured on this machine are stored, by CPU model and oneDNN's version: in $XDG_CACHE_HOME/dlpipe or
/// ~/.cache/dlpipe; empty if there is neither.
std::string measured_kernels_file();

/// Makes kernel_table() measure, unless `option` is "rules", or it is "auto" and DLPIPE_KERNELS is "rules". Throws Error kMisuse
/// for an unknown name. For ranks on several machines, "auto" means "rules" if DLPIPE_KERNELS is not set: each machine would
/// measure separately, and different choices compute different bits. `tell` is called with a kernel's key before it is searched
/// for; without it, search_note() is logged once searches have taken more than a second.
void use_kernels(std::string_view option, bool several_machines = false,
                 std::function<void(const std::string& key)> tell = nullptr);

/// The message for the user while kernels are searched for. `without`: the option that avoids searches.
std::string search_note(std::string_view without);

/// Loads a run's kernels.json into kernel_table(). Choices of another version of oneDNN are left out with a warning, because
/// the resumed run can't have the same bits. Throws Error for a corrupt file.
void resume_kernels(const std::string& file);

// The kernels.json of a run directory: kernel_table() with a checksum, because another choice would silently change the last
// bits of a resumed run.

/// Writes the current kernel_table().
Status save_kernels(const std::string& file);
/// Adds what save_kernels() wrote to kernel_table(). kCorrupt if the file was changed later; then nothing is added.
Status load_kernels(const std::string& file);

}  // namespace dlpipe::run
