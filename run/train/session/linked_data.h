// Training without an ingest: --data may be pictures (a folder by class, tar shards, whatever `dlpipe ingest` reads and can
// leave where it is). A dataset of links to them is made beside the run, which from then on is the run's dataset.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/base/error.h"
#include "dlpipe/run/config/config.h"
#include "dlpipe/run/train/session/options.h"

namespace dlpipe::run {

inline constexpr PathOption kDataOption = {"data", &TrainConfig::data};
inline constexpr PathOption kValOption = {"val", &TrainConfig::val};

/// Where --data or --val are no datasets but pictures: makes datasets of links to them, in `run_directory`, and answers the
/// options with these in their place. Of several ranks the first one makes them and the others wait, however long it takes. Tells what it
/// does. Reads what each file begins with, for its size in pixels; the first epoch reads the rest, and from then on it must stay
/// as it is (io/data/FORMAT.md, Late checksums). Decodes a few hundred pictures for mean and standard deviation. kMisuse where a
/// run that goes on began with other pictures: its links stay as they are.
SessionOptions link_pictures(SessionOptions options, const std::string& run_directory,
                             const Notes& notes = {});

/// Whether link_pictures would: throws where a folder can't be listed.
bool is_of_pictures(const TrainConfig& config, const PathOption& option);

/// The run's own dataset of links to the pictures that `option`, --data or --val, names; absolute.
std::string links_of(const std::string& run_directory, const PathOption& option);
/// In TrainConfig::record: the pictures that `option` named, where it is links_of() the run now.
std::string pictures_key(const PathOption& option);
/// The one folder in `pictures` that is called as `split`, "test", is; "" where none is, or several are.
std::string folder_of_split(const std::string& pictures, std::string_view split);
/// Of a run that goes on: kNotFound where `option` is links_of() the run, and neither what it named nor the first and the last
/// file that is linked are there. Few files that are missing are the loader's to say; a list of files may be gone.
Status check_pictures_are_there(const TrainConfig& config, const PathOption& option);

}  // namespace dlpipe::run
