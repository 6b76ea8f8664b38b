#include "dlpipe/run/ingest/mask_values.h"

#include <bitset>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/mask.h"

namespace dlpipe::ingest {

namespace {

constexpr size_t kLooked = 16;
constexpr size_t kNotKnown = 255;

/// The numbers in the first masks of field `f`, and in how many.
struct Seen {
  std::bitset<256> numbers;
  size_t masks = 0;
};

Seen look(const data::Source& source, size_t f, const std::vector<FrozenSplit>& splits) {
  Seen seen;
  data::MaskDecoder decoder;
  for (const FrozenSplit& split : splits) {
    for (const data::SourceEntry& entry : split.entries) {
      if (seen.masks == kLooked) return seen;
      if (!entry.problem.empty() || f >= entry.extra.size() || entry.extra[f].empty()) continue;
      const auto bytes = source.read_referred(entry, entry.extra[f]);
      if (!bytes.ok()) continue;
      const auto mask = decoder.decode(*bytes);
      if (!mask.ok() || mask->height == 0) continue;
      ++seen.masks;
      for (int y = 0; y < mask->height; ++y) {
        for (int x = 0; x < mask->width; ++x) seen.numbers.set(mask->row(y)[x]);
      }
      std::bitset<256> others = seen.numbers;
      if (others.reset(0).reset(kNotKnown).any()) return seen;
    }
  }
  return seen;
}

}  // namespace

std::vector<std::string> warnings_of_masks(const data::Source& source, const std::vector<data::Field>& fields,
                                           const std::vector<FrozenSplit>& splits) {
  std::vector<std::string> warnings;
  for (size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].kind != data::FieldKind::kMask) continue;
    const Seen seen = look(source, f, splits);
    std::bitset<256> others = seen.numbers;
    if (!seen.numbers[kNotKnown] || others.reset(0).reset(kNotKnown).any()) continue;
    warnings.push_back(
        concat("[ingest] the masks of the field ", in_quotes(fields[f].name), " hold nothing but 0 and 255 (",
               seen.masks, seen.masks == 1 ? " was" : " were",
               " looked at), and are stored so; 255 mostly means 'not known': where it is a class, "
               "write its number, as 1, in its place"));
  }
  return warnings;
}

}  // namespace dlpipe::ingest
