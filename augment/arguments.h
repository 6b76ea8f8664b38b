// What an op may be given: the parameters that its record declares, and the values that an expression gave.
//
// The parser checks kinds, bounds and choices against the declaration, so that an op's constructor only reads.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/rng.h"

namespace dlpipe::augment {

class Chain;

struct ImageSize {
  int width = 0;  // 0: not known before the sample is
  int height = 0;
  int channels = 3;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// One parameter of an op. Kinds and how they are written:
///   int     12                 float   0.5 or 3/4             size    224 or 192x256 (height x width)
///   range   0.08..1            list    0.485:0.456:0.406      string  reflect, one of `choices` if there are any
///   drawn   1.5, or 0.5..1.5: drawn evenly from there         ints    4, or 4..8: drawn evenly, both ends included
///   spread  0.4 is the range 0.4 around `neutral`, cut off at `low`; or a range LO..HI as it is
///   color   0 or 124:116:104: whole numbers in 0..255, one for all channels or one per channel
///   ops     ops of this grammar, blanks between them and '|' between alternatives
/// A parameter whose default is "none" may be left out or given as none.
struct OpParam {
  std::string name;
  std::string kind;
  std::string default_value;  // empty: required
  std::string help;
  /// What every number of it lies in.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::string unit = {};  // "degrees", "pixels"; empty: a plain number
  double neutral = 0;     // of kind spread: the value that changes nothing
  std::vector<std::string> choices = {};
  /// Came to an op that had users: where it has its default it is left out of the chain's canonical text, so that older
  /// runs keep their pipeline id.
  bool is_late = false;
};

/// A number that is drawn for every sample, evenly from [low, high).
struct Drawn {
  double low = 0;
  double high = 0;
  /// One number of the stream, also where low equals high.
  double draw(RandomStream& rng) const { return low + (high - low) * rng.uniform_double(); }
  /// Of whole numbers, both ends included.
  int draw_int(RandomStream& rng) const {
    return static_cast<int>(low) + static_cast<int>(rng.below(static_cast<uint32_t>(high - low) + 1));
  }
};

/// The expression's arguments: every parameter has a value of its kind, written the canonical way ("3/4" has
/// become "0.75"). Asking for a parameter that the record doesn't declare, or as another kind, is the op's
/// defect: the answer is 0 or empty, and defect() says so.
class OpArguments {
 public:
  std::vector<std::pair<std::string, std::string>> values;  // name, text; in the record's order
  /// Of the parameter of kind "ops", parsed.
  std::vector<std::shared_ptr<const Chain>> chains;

  int integer(std::string_view name);
  double number(std::string_view name);
  /// "0.08..1" gives two, "0.485:0.456:0.406" three, "none" none.
  std::vector<double> numbers(std::string_view name);
  /// Of kinds range, drawn, ints and spread.
  Drawn drawn(std::string_view name);
  std::string text(std::string_view name);
  /// "224" gives {224, 224}, "192x256" height 192 and width 256; is_single (may be null) tells which.
  ImageSize size(std::string_view name, bool* is_single = nullptr);
  /// Whether it is given as "none".
  bool is_none(std::string_view name);

  /// For what an op refuses itself ("pad must be less than the size, got 40"): the parser adds op and position.
  void refuse(Status reason) {
    if (defect_.ok()) defect_ = std::move(reason);
  }
  /// What was refused, or asked wrongly; ok when nothing was.
  const Status& defect() const { return defect_; }

 private:
  const std::string* find(std::string_view name) const;
  void no_such(std::string_view name, std::string_view kind);

  Status defect_;
};

}  // namespace dlpipe::augment
