// One augmentation: what it decides, what it does to pixels, and how it is written in an expression.
//
// Adding one: write ops/NAME.cpp with `extern const OpRecord NAME_augmentation;`,
// tests/augment/ops/NAME_test.cpp and `dlpipe_register(augmentation NAME)`; a program of its own adds its
// record to an OpRegistry value. Ops are immutable: plan and apply are const and may run on many threads at
// once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/rng.h"

namespace dlpipe::augment {

struct ImageSize {
  int width = 0;  // 0: not known before the sample is
  int height = 0;
  int channels = 3;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// What one op decided for one sample: plain data, hashed into the batch chain.
struct OpDraw {
  Region region;                  // the part of the op's input it reads
  ImageSize out;                  // the size it writes
  bool mirror = false;            // left and right swapped in what it writes (a folded hflip)
  bool active = true;             // false: the op passes its input on unchanged
  std::array<float, 4> values{};  // anything else
};

/// The expression's arguments, checked against the record's parameters: every parameter has a value.
struct OpParam {
  std::string name;
  std::string kind;           // "int", "float", "size" (N or HxW), "range" (lo..hi), "string"
  std::string default_value;  // empty: required
  std::string help;
};
class OpArguments {
 public:
  std::vector<std::pair<std::string, std::string>> values;  // name, text; in the record's order
  Result<int64_t> integer(std::string_view name) const;
  Result<double> number(std::string_view name) const;
  Result<std::vector<double>> numbers(std::string_view name) const;  // "0.08..1" or "0.485:0.456:0.406"
  Result<std::string> text(std::string_view name) const;
};

class ChainScratch;

class Op {
 public:
  virtual ~Op() = default;

  /// Size out for a size in; zeros mean "not known", and stay so where the op follows its input.
  virtual ImageSize output(const ImageSize& in) const = 0;
  /// Draws all random numbers. `in` is known. Sets draw.region (within `in`) and draw.out.
  virtual Status plan(const ImageSize& in, RandomStream& rng, OpDraw& draw) const = 0;
  /// `in` holds exactly draw.region's pixels; writes all of `out` (draw.out's size), mirrored if draw.mirror.
  virtual Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
                       ChainScratch& scratch) const = 0;
  /// True for ops that touch no pixel and only describe the batch (normalize, cast).
  virtual bool is_prep() const { return false; }
  virtual void fill_prep(BatchPrep&) const {}
  /// True for hflip: the chain folds it into the op before it, which then writes mirrored.
  virtual bool is_mirror() const { return false; }
};

/// How an op stands in the table: `dlpipe train --help ops` prints these rows and the parser builds from
/// them.
struct OpRecord {
  const char* name;
  const char* help;
  int version;  // raise when pixels or draws change: it is part of the pipeline id
  std::vector<OpParam> params;
  Result<std::shared_ptr<const Op>> (*build)(const OpArguments& arguments);
};

class OpRegistry {
 public:
  /// The ops of dlpipe itself, from the generated table.
  static const OpRegistry& builtin();
  void add(const OpRecord& record);  // the record must outlive the registry
  const OpRecord* find(std::string_view name) const;
  std::span<const OpRecord* const> records() const { return records_; }

 private:
  std::vector<const OpRecord*> records_;
};

std::span<const OpRecord* const> augmentation_table();

}  // namespace dlpipe::augment
