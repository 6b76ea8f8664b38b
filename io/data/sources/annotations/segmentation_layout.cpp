#include "dlpipe/io/data/sources/annotations/segmentation_layout.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data::segmentation {

namespace fs = std::filesystem;

namespace {

const std::array<Naming, 2>& namings() {
  static const std::array<Naming, 2> kNamings = {
      {{{"images", "image", "imgs", "img", "img_dir", "jpegimages", "photos", "pictures"},
        {"masks", "mask", "segmentationclass", "segmentation", "segmentations", "annotations", "labels",
         "annotation", "label", "ann_dir", "gt", "ground_truth", "groundtruth"},
        "",
        {"", "_mask", "-mask", "_seg", "_segmentation", "_label", "_labels", "_labelTrainIds", "_gt",
         "_groundtruth"},
        false},
       // Cityscapes. Masks that its scripts make for training go before the published ones.
       {{"leftimg8bit"},
        {"gtfine", "gtcoarse"},
        "_leftImg8bit",
        {"_gtFine_labelTrainIds", "_gtFine_labelIds", "_gtCoarse_labelTrainIds", "_gtCoarse_labelIds"},
        true}}};
  return kNamings;
}

// What folders of masks beside the pictures' train, val and test are called behind these: CamVid's trainannot, ...
constexpr std::array<std::string_view, 5> kBesideSplits = {"annot", "_annot", "_masks", "_mask", "_labels"};

Files names_below(const fs::path& folder) {
  Files names;
  (void)find_below(folder, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const std::string path = entry.path().lexically_relative(folder).string();
    if (name[0] != '.' && has_image_name(name)) names.emplace(without_ending(path), path);
    return false;  // all of them
  });
  return names;
}

}  // namespace

std::optional<fs::path> unreadable_below(const fs::path& folder) {
  return find_below(folder, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored) && ::access(entry.path().c_str(), R_OK | X_OK) != 0;
  });
}

std::string without_ending(const std::string& path) {
  return fs::path(path).replace_extension().string();
}

Files masks_below(const fs::path& folder, const Naming& naming) {
  Files masks = names_below(folder);
  const auto is_other = [&](const auto& file) {
    return std::none_of(naming.mask_ends.begin(), naming.mask_ends.end(),
                        [&](std::string_view end) { return file.first.ends_with(end); });
  };
  if (naming.has_others) std::erase_if(masks, is_other);
  return masks;
}

std::string mask_of(const std::string& picture, const Files& masks, const Naming& naming) {
  std::string stem = without_ending(picture);
  if (stem.ends_with(naming.picture_end)) stem.resize(stem.size() - naming.picture_end.size());
  for (const std::string_view end : naming.mask_ends) {
    if (const auto it = masks.find(concat(stem, end)); it != masks.end()) return it->second;
  }
  return {};
}

namespace {

/// Two folders of one.
struct Pair {
  std::string pictures;
  std::string masks;
  const Naming* naming;
};

/// At least half of the masks have a picture: two classes whose names happen to be these hold other files.
bool belong_together(const fs::path& pictures, const fs::path& masks, const Naming& naming) {
  const Files all = masks_below(masks, naming);
  if (all.empty()) return false;
  std::set<std::string> found;
  for (const auto& [stem, file] : names_below(pictures)) found.insert(mask_of(file, all, naming));
  found.erase("");
  return (naming.has_others ? 4 : 2) * found.size() >= all.size();
}

std::vector<std::string> folders_in(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Pair> pair_in(const fs::path& root) {
  const std::vector<std::string> folders = folders_in(root);
  const auto called = [&](std::string_view wanted) {
    const auto it = std::find_if(folders.begin(), folders.end(),
                                 [&](const std::string& name) { return lower_text(name) == wanted; });
    return it == folders.end() ? std::string() : *it;
  };
  for (const Naming& naming : namings()) {
    for (const std::string_view pictures : naming.pictures) {
      for (const std::string_view masks : naming.masks) {
        const Pair pair{called(pictures), called(masks), &naming};
        if (!pair.pictures.empty() && !pair.masks.empty() &&
            belong_together(root / pair.pictures, root / pair.masks, naming))
          return pair;
      }
    }
  }
  return std::nullopt;
}

/// Folders by their names, and the splits that these say; none where these are fewer than two.
using Splits = std::vector<std::pair<std::string, std::string>>;

Splits splits_in(const fs::path& root, const std::function<std::string(std::string_view)>& split_of) {
  Splits found;
  std::set<std::string> splits;
  for (const std::string& name : folders_in(root)) {
    const std::string split = split_of(name);
    if (split.empty()) continue;
    found.emplace_back(name, split);
    splits.insert(split);
  }
  return splits.size() < 2 ? Splits() : found;
}

std::string folder_of(const fs::path& path) {
  return path.lexically_normal().string();
}

void add_part(const std::string& folder, const std::string& split, const fs::path& pictures,
              const fs::path& masks, Layout& layout) {
  layout.parts.push_back({folder_of(pictures), folder.empty() ? "" : folder + "/", split, folder_of(masks)});
}

/// Pictures in one folder and masks in another, both with folders of splits in them or without.
Layout outer_pair(const fs::path& root) {
  Layout layout;
  const auto pair = pair_in(root);
  if (!pair) return layout;
  layout.naming = pair->naming;
  layout.text = concat("pictures in ", in_quotes(pair->pictures), ", the mask of each in ",
                       in_quotes(pair->masks), " by the same name");
  const fs::path pictures = root / pair->pictures;
  const fs::path masks = root / pair->masks;
  // train2017, train_extra
  const Splits splits = splits_in(pictures, [](std::string_view name) { return split_in_words(name); });
  for (const auto& [folder, split] : splits)
    add_part(folder, split, pictures / folder, masks / folder, layout);
  if (splits.empty()) add_part("", "", pictures, masks, layout);
  return layout;
}

/// Such a pair in each of the folders of splits.
Layout inner_pairs(const fs::path& root, const Splits& splits) {
  Layout layout;
  std::vector<std::optional<Pair>> pairs;
  std::optional<Pair> first;
  for (const auto& [folder, split] : splits) {
    pairs.push_back(pair_in(root / folder));
    if (!first) first = pairs.back();
  }
  if (!first) return layout;
  layout.naming = first->naming;
  layout.text = concat("in each split pictures in ", in_quotes(first->pictures), ", the mask of each in ",
                       in_quotes(first->masks), " by the same name");
  for (size_t i = 0; i < splits.size(); ++i) {
    // A test's masks are often not handed out.
    const Pair pair = pairs[i].value_or(*first);
    const fs::path folder = root / splits[i].first;
    if (is_folder(folder / pair.pictures))
      add_part(splits[i].first, splits[i].second, folder / pair.pictures, folder / pair.masks, layout);
  }
  return layout;
}

/// Pictures in folders of splits, masks in others beside them.
Layout pairs_of_splits(const fs::path& root, const Splits& splits) {
  Layout layout;
  for (const std::string_view end : kBesideSplits) {
    const auto is_pair = [&](const auto& split) {
      return belong_together(root / split.first, root / concat(split.first, end), namings()[0]);
    };
    const auto first = std::find_if(splits.begin(), splits.end(), is_pair);
    if (first == splits.end()) continue;
    layout.naming = &namings()[0];
    layout.text = concat("pictures in ", in_quotes(first->first), " and so on, the mask of each in ",
                         in_quotes(concat(first->first, end)), " by the same name");
    for (const auto& [folder, split] : splits)
      add_part(folder, split, root / folder, root / concat(folder, end), layout);
    return layout;
  }
  return layout;
}

}  // namespace

Layout layout_of(const fs::path& root) {
  Layout layout = outer_pair(root);
  if (!layout.parts.empty()) return layout;
  const Splits splits =
      splits_in(root, [](std::string_view name) { return std::string(split_of_name(name)); });
  layout = inner_pairs(root, splits);
  return layout.parts.empty() ? pairs_of_splits(root, splits) : layout;
}

}  // namespace dlpipe::data::segmentation
