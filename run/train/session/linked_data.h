// Training without an ingest: --data may be images (a folder per class, tar shards, or anything else that `dlpipe ingest` can
// link to). A dataset of links to them is created in the run directory, and becomes the run's dataset.
#pragma once

#include <string>
#include <string_view>

#include "dlpipe/config.h"
#include "dlpipe/error.h"
#include "run/config/config.h"
#include "run/train/session/options.h"

namespace dlpipe::run {

inline constexpr PathOption kDataOption = {"data", &TrainConfig::data};
inline constexpr PathOption kValOption = {"val", &TrainConfig::val};

/// If --data or --val are images rather than datasets: creates datasets of links to them in `run_directory`, and returns the
/// options with these instead. With several ranks, the first one creates them and the others wait, however long it takes.
/// Reports progress to `notes`. Reads the beginning of each file for its size in pixels; the first epoch reads the rest, and
/// from then on files must not change (io/data/FORMAT.md, Late checksums). Decodes a few hundred images for mean and standard
/// deviation. kMisuse if a resumed run began with other images; its links stay unchanged.
SessionOptions link_images(SessionOptions options, const std::string& run_directory, const Notes& notes = {});

/// Whether link_images would create links; throws if a folder can't be listed.
bool is_of_images(const TrainConfig& config, const PathOption& option);

/// The absolute path of the run's dataset of links to the images that `option`, --data or --val, names.
std::string links_of(const std::string& run_directory, const PathOption& option);
/// The key in TrainConfig::record of the images that `option` named, if it is now links_of() the run.
std::string images_key(const PathOption& option);
/// The only folder in `images` that is named like `split`, such as "test"; "" if there is none or several.
std::string folder_of_split(const std::string& images, std::string_view split);
/// For a resumed run: kNotFound if `option` is links_of() the run, and neither the path that it named nor the first or last
/// linked file exists. The loader reports individual missing files; a list of files may be missing.
Status check_images_are_there(const TrainConfig& config, const PathOption& option);

}  // namespace dlpipe::run
