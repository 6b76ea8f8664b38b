// One file, or one sample from memory, to one record: check, decode whole, re-code where the options ask for it, pack.
//
// An ImageWorker belongs to one thread and keeps its scratch; the Source and the counters are shared.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dlpipe/base/counter.h"
#include "dlpipe/base/error.h"
#include "dlpipe/io/data/codec/coef/jpeg_coefficients.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/codec/mask.h"
#include "dlpipe/io/data/record.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::ingest {

struct WorkCounters {
  Counter read_ns;
  Counter decode_ns;
  Counter encode_ns;  // resize, re-code, pack
};

class ImageWorker {
 public:
  /// A worker decodes each picture, of linked and trusted ones each of `decode_every`.
  ImageWorker(const IngestOptions& options, const data::Schema& schema, WorkCounters& counters,
              uint64_t decode_every = 1);

  // Errors of is_bad_file are this sample's own; all others end the ingest. Never throws.
  using Values = std::vector<std::span<const std::byte>>;
  /// The file is the first field of the schema; its label, name and further columns are the others. `item` is its place
  /// in the list.
  Result<data::PackedRecord> process(const data::Source& source, const data::SourceEntry& entry,
                                     uint64_t item) noexcept;
  /// `values` in the schema's order. `picture` (JPEG, PNG, raw.h) stands in for the image field's, where there is one.
  Result<data::PackedRecord> pack(std::vector<std::byte> picture, Values values) noexcept;

 private:
  struct Stored {
    std::vector<std::byte> bytes;
    data::RecordHeader header;
  };
  Result<data::PackedRecord> process_checked(const data::Source& source, const data::SourceEntry& entry,
                                             uint64_t item);
  Result<data::PackedRecord> pack_checked(std::vector<std::byte> picture, Values values,
                                          const data::AnnotatedSize& annotated);
  /// What is read of a file for its record: all of it, or of one that is linked with a late checksum mostly its head.
  struct Read {
    std::vector<std::byte> bytes;
    std::optional<data::ImageInfo> info;  // where it is known already
  };
  Result<Read> read(const data::Source& source, const data::SourceEntry& entry, bool decodes);
  Result<data::Link> link_to(const data::Source& source, const data::SourceEntry& entry) const;
  Result<data::PackedRecord> link_checked(const data::Source& source, const data::SourceEntry& entry,
                                          const Read& picture, Values values, bool decodes);
  void set_picture(const data::ImageInfo& info);
  Status decode(const std::vector<std::byte>& bytes, const data::ImageInfo& info);
  Result<Stored> store(std::vector<std::byte> bytes, const data::ImageInfo& info);
  /// Decodes into picture_ and keeps what a coefficient record is made of; false: to be decoded as any other.
  bool decode_with_coefficients(const std::vector<std::byte>& bytes, const data::ImageInfo& info);
  /// Gives a JPEG the layout of --jpeg, unless that can't be or its pixels would differ.
  Status use_jpeg_layout(bool is_source, Stored& stored);
  void shrink();
  /// Whether the picture is drawn onto --background, and so is no longer its file.
  bool is_composited(const data::ImageInfo& info) const { return info.has_alpha && options_.background; }
  /// Boxes and points of `values`, shares or pixels of a picture of the size of `seen`, in pixels of the one that is
  /// stored: into `scaled`, which they then lie in.
  void scale_places(const data::AnnotatedSize& annotated, const Region& seen, Values& values,
                    std::vector<std::vector<std::byte>>& scaled) const;

  /// Checks masks; where the picture, which was seen.width x seen.height, is stored smaller, so are they: into `scaled`.
  Status store_masks(const Region& seen, Values& values, std::vector<std::vector<std::byte>>& scaled);

  const IngestOptions& options_;
  const uint64_t decode_every_;
  WorkCounters& counters_;
  data::ImageDecoder decoder_;
  data::MaskDecoder masks_;
  data::CoefficientEncoder coefficients_;
  bool has_coefficients_ = false;  // of the file in work
  data::RecordPacker packer_;
  const std::vector<data::Field> fields_;
  const std::optional<std::string> links_;  // the folder that links begin at
  std::optional<size_t> image_field_;
  std::vector<uint8_t> pixels_;  // the decoded picture, as seen
  std::vector<uint8_t> shrunk_;  // the same after --resize-max
  std::vector<std::byte> resize_work_;
  std::vector<uint8_t> expected_;  // a re-coded JPEG's pixels
  std::vector<uint8_t> decoded_;   // a coefficient record's
  ImageView picture_;              // into one of the two
};

/// True for errors that are one file's fault and fall under --on-error.
bool is_bad_file(const Status& status);
/// What --on-error stop ends with at `item`, which is bad for that reason.
Status bad_file_error(std::string_view area, std::string_view item, const Status& reason);

}  // namespace dlpipe::ingest
