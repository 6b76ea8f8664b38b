// The grammar of an augmentation expression, before any op is known:
//
//   expression := { op }                          separated by blanks
//   op         := name [ '(' [ argument { ',' argument } ] ')' ]
//   argument   := value | name '=' value          values hold no bracket, comma or '='
//               | [ name '=' ] alternatives       where the op takes other ops
//   alternatives := expression { '|' expression }
//   name       := letter { letter | digit | '_' }
//
// Positions count from 1 and are in every message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment_op.h"
#include "dlpipe/error.h"

namespace dlpipe::augment {

struct ExpressionArgument {
  std::string name;  // empty: positional
  std::string value;
  size_t position = 0;
};

struct ExpressionCall {
  std::string name;
  std::vector<ExpressionArgument> arguments;
  size_t position = 0;
};

Result<std::vector<ExpressionCall>> parse_expression(std::string_view text);

/// Assigns every parameter of `record` its value: from `call`, or the default. `text` is the whole expression, for messages.
Result<OpArguments> bind_arguments(const ExpressionCall& call, const OpRecord& record, std::string_view text);

/// ` at position 10 of "rrc(224) hflp"`
std::string at_position(size_t position, std::string_view text);

}  // namespace dlpipe::augment
