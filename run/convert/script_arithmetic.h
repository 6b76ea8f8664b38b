// What Python computes of numbers that stand in a recipe: int(256 / 0.875), size // 2, 0.8 * s. Pure functions.
#pragma once

#include "dlpipe/run/convert/script_expression.h"

namespace dlpipe::run {

/// Makes a value of numbers that + - * / // % ** join, or that int, float, abs, round, min, max, math.floor, math.ceil or math.sqrt is
/// called with, by Python's rules; leaves every other expression, and results that aren't numbers (x / 0), as they are.
void compute(ScriptExpression& one);

}  // namespace dlpipe::run
