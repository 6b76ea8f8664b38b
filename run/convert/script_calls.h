// Expressions of a Python program as calls of transforms. Pure functions.
#pragma once

#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/convert/script_expression.h"

namespace dlpipe::run {

bool is_compose(const ScriptExpression& one);
/// A call of a transform that dlpipe has an equal of, or of one that holds such; a list with one of these.
bool is_transform(const ScriptExpression& one);
/// A call of a class, and so perhaps of a transform that nobody here knows.
bool is_class_call(const ScriptExpression& one);
/// Whether a transform stands anywhere within.
bool holds_transform(const ScriptExpression& one);

/// A transform, or a list of them, as an array in transform_text.h's form. `has_lines`: each says its line.
formats::Json script_calls(const ScriptExpression& recipe, bool has_lines);

}  // namespace dlpipe::run
