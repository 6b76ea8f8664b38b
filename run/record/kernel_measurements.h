// Whether runs measure their kernels, and where the answers are kept on this machine.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "dlpipe/run/config/enumerated.h"

namespace dlpipe::run {

/// Where choices measured on this machine are kept, by CPU model and oneDNN's version: in
/// $XDG_CACHE_HOME/dlpipe or ~/.cache/dlpipe; empty where there is neither.
std::string measured_kernels_file();

/// Has kernel_table() measure, unless `option` is "rules" or, being "auto", DLPIPE_KERNELS is. Throws Error
/// kMisuse for a name that isn't in the table.
/// For ranks on several machines "auto" is "rules" where DLPIPE_KERNELS isn't set: each machine would measure for itself, and
/// other choices give other bits. `tell` is called with a kernel's key before it is searched for; without it search_note() is
/// logged once searches have taken more than a second.
void use_kernels(std::string_view option, bool several_machines = false,
                 std::function<void(const std::string& key)> tell = nullptr);

/// What a user reads while kernels are searched for. `without`: the option that does without searches.
std::string search_note(std::string_view without);

/// Has kernel_table() take what a run's kernels.json holds. Choices of another version of oneDNN are left out
/// with a warning, as the resumed run can't have the same bits. Throws Error for a damaged file.
void resume_kernels(const std::string& file);

}  // namespace dlpipe::run
