#include "dlpipe/run/convert/script_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

/// An int or a float of Python's. Whole numbers of 2^53 and more, which doubles don't hold, become no value: checked().
struct Number {
  double value = 0;
  bool is_whole = false;
};
using Maybe = std::optional<Number>;

Maybe checked(double value, bool is_whole) {
  constexpr double kMostWhole = 9007199254740992;  // 2^53
  if (!std::isfinite(value) || (is_whole && std::abs(value) >= kMostWhole)) return {};
  return Number{value, is_whole};
}

/// `infix` is none of power's.
Maybe joined(const Number& left, std::string_view infix, const Number& right) {
  const bool are_whole = left.is_whole && right.is_whole;
  if (infix == "+") return checked(left.value + right.value, are_whole);
  if (infix == "-") return checked(left.value - right.value, are_whole);
  if (infix == "*") return checked(left.value * right.value, are_whole);
  if (infix == "/") return checked(left.value / right.value, false);
  // of whole numbers below 2^53 both are exact; Python, too, takes the quotient from the remainder
  double rest = std::fmod(left.value, right.value);
  if (rest != 0 && (rest < 0) != (right.value < 0)) rest += right.value;
  if (infix == "%") return checked(rest, are_whole);
  if (infix == "//") return checked(std::round((left.value - rest) / right.value), are_whole);
  return {};
}

Maybe power(const Number& base, const Number& exponent) {
  return checked(std::pow(base.value, exponent.value),
                 base.is_whole && exponent.is_whole && exponent.value >= 0);
}

/// Operands with the words before each: an infix before all but the first, then prefixes. ** binds closer than the prefix before it.
class Arithmetic {
 public:
  explicit Arithmetic(const ScriptExpression& one) {
    for (size_t i = 0; i < one.items.size(); ++i) {
      const Json& value = one.items[i].value;
      numbers_.push_back({value.as_double(), value.is_integer()});
      std::vector<std::string> words;
      if (!one.signs[i].empty()) words = split(one.signs[i], ' ');
      infixes_.push_back(i == 0 ? std::string() : words.at(0));
      if (i > 0) words.erase(words.begin());
      prefixes_.push_back(std::move(words));
    }
  }

  Maybe sum() {
    Maybe left = term();
    while (left && is_at({"+", "-"})) left = next(*left, &Arithmetic::term);
    return at_ == numbers_.size() ? left : Maybe();
  }

 private:
  bool is_at(std::initializer_list<std::string_view> infixes) const {
    return at_ < numbers_.size() && std::ranges::find(infixes, infixes_[at_]) != infixes.end();
  }

  Maybe next(const Number& left, Maybe (Arithmetic::*read)()) {
    const std::string& infix = infixes_[at_];
    const Maybe right = (this->*read)();
    return right ? joined(left, infix, *right) : Maybe();
  }

  Maybe term() {
    Maybe left = factor();
    while (left && is_at({"*", "/", "//", "%"})) left = next(*left, &Arithmetic::factor);
    return left;
  }

  /// An operand with its prefixes and its powers.
  Maybe factor() {
    const std::vector<std::string>& prefixes = prefixes_[at_];
    Maybe made = numbers_[at_++];
    if (is_at({"**"})) {
      const Maybe exponent = factor();
      made = exponent ? power(*made, *exponent) : Maybe();
    }
    for (const std::string& prefix : prefixes) {
      if (!made || (prefix != "-" && prefix != "+")) return {};
      if (prefix == "-") made->value = -made->value;
    }
    return made;
  }

  std::vector<Number> numbers_;
  std::vector<std::string> infixes_;
  std::vector<std::vector<std::string>> prefixes_;
  size_t at_ = 0;
};

/// Python's own functions and math's. A program may import the latter by their names alone, or have its own of these names.
Maybe called(const std::string& name, const std::vector<Number>& given) {
  const auto value = [](const Number& one) { return one.value; };
  if (name == "min") return *std::ranges::min_element(given, {}, value);
  if (name == "max") return *std::ranges::max_element(given, {}, value);
  if (given.size() != 1) return {};
  const Number one = given[0];
  if (name == "int") return checked(std::trunc(one.value), true);
  if (name == "float") return checked(one.value, false);
  if (name == "abs") return checked(std::abs(one.value), one.is_whole);
  if (name == "round") return checked(std::nearbyint(one.value), true);  // halves to the even number
  if (name == "math.floor") return checked(std::floor(one.value), true);
  if (name == "math.ceil") return checked(std::ceil(one.value), true);
  if (name == "math.sqrt") return checked(std::sqrt(one.value), false);
  return {};
}

}  // namespace

void compute(ScriptExpression& one) {
  using Kind = ScriptExpression::Kind;
  const auto is_number = [](const ScriptExpression& item) {
    return item.kind == Kind::kValue && item.value.is_number() && !item.is_spread;
  };
  if (one.items.empty() || !std::ranges::all_of(one.items, is_number)) return;
  Maybe made;
  if (one.kind == Kind::kOther && one.signs.size() == one.items.size()) {
    made = Arithmetic(one).sum();
  } else if (one.kind == Kind::kCall && std::ranges::all_of(one.keys, &std::string::empty)) {
    std::vector<Number> given;
    for (const ScriptExpression& item : one.items)
      given.push_back({item.value.as_double(), item.value.is_integer()});
    made = called(one.name, given);
  }
  if (!made) return;
  one.kind = Kind::kValue;
  one.value = made->is_whole ? Json(static_cast<int64_t>(made->value)) : Json(made->value);
  one.name.clear();
  one.items.clear();
  one.keys.clear();
  one.signs.clear();
}

}  // namespace dlpipe::run
