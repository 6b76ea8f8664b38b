// Imports Einsum: sums of products over letters. Contracts the inputs from left to right, each pair by one matrix product.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/onnx/import_run.h"

namespace dlpipe::engine::onnx {

namespace {

// "bhid,bhjd->bhij": a letter for each axis.
struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

Equation equation_of(const Run& run, const NodeEntry& node) {
  std::string text = run.attribute(node, "equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation equation{{""}, {}};
  std::map<char, int> counts;
  for (const char letter : left) {
    if (letter == ',') {
      equation.inputs.emplace_back();
    } else if (std::isalpha(static_cast<unsigned char>(letter)) == 0) {
      run.refuse(node, "dlpipe supports equations of letters, got '", text, "'");
    } else {
      if (equation.inputs.back().find(letter) != std::string::npos)
        run.refuse(node, "dlpipe doesn't support diagonals ('", letter, "' twice in one input of '", text,
                   "')");
      equation.inputs.back() += letter;
      ++counts[letter];
    }
  }
  if (equation.inputs.size() != node.inputs.size())
    run.refuse(node, "its equation '", text, "' is for ", equation.inputs.size(), " inputs, but it has ",
               node.inputs.size());
  if (arrow == std::string::npos) {  // the output has the letters that occur once, in alphabetical order
    for (const auto& [letter, count] : counts) {
      if (count == 1) equation.output += letter;
    }
    return equation;
  }
  equation.output = text.substr(arrow + 2);
  for (const char letter : equation.output) {
    if (counts[letter] == 0 || std::count(equation.output.begin(), equation.output.end(), letter) != 1)
      run.refuse(node, "expected each letter of the output once, and in an input, got '", text, "'");
  }
  return equation;
}

// A tensor and the letter of each of its axes.
struct Term {
  Tensor tensor;
  std::string letters;

  int64_t size(char letter) const { return tensor.size(static_cast<int>(letters.find(letter))); }
  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
};

std::string picked(const std::string& letters, const auto& is_wanted) {
  std::string wanted;
  std::copy_if(letters.begin(), letters.end(), std::back_inserter(wanted), is_wanted);
  return wanted;
}

Term turned(const Term& term, const std::string& order) {
  if (order == term.letters) return term;
  std::vector<int> axes;
  for (const char letter : order) axes.push_back(static_cast<int>(term.letters.find(letter)));
  return {transpose(term.tensor, axes), order};
}

// Sums over the letters that are not in `keep`.
Term summed(const Term& term, const std::string& keep) {
  std::vector<int> axes;
  for (size_t i = 0; i < term.letters.size(); ++i) {
    if (keep.find(term.letters[i]) == std::string::npos) axes.push_back(static_cast<int>(i));
  }
  if (axes.empty()) return term;
  return {sum(term.tensor, axes),
          picked(term.letters, [&](char letter) { return keep.find(letter) != std::string::npos; })};
}

// The axes of `term` in the order of `groups`. The letters of each group become one axis; no letters become an axis of size 1.
Tensor grouped(const Term& term, const std::vector<std::string>& groups) {
  std::string order;
  for (const std::string& group : groups) order += group;
  const Tensor in_order = turned(term, order).tensor;
  Shape shape;
  for (const std::string& group : groups) {
    int64_t size = 1;
    for (const char letter : group) size *= term.size(letter);
    shape.push_back(size);
  }
  return shape == in_order.shape() ? in_order : reshape(in_order, shape);
}

std::vector<std::string> each_alone(const std::string& letters) {
  std::vector<std::string> groups;
  for (const char letter : letters) groups.emplace_back(1, letter);
  return groups;
}

// The product of both terms, summed over the letters that are not in `keep`.
Term contracted(const Run& run, const NodeEntry& node, const Term& left, const Term& right,
                const std::string& keep) {
  const auto is_kept = [&](char letter) { return keep.find(letter) != std::string::npos; };
  const Term a = summed(left, keep + right.letters), b = summed(right, keep + left.letters);
  const std::string batch = picked(a.letters, [&](char letter) { return b.has(letter) && is_kept(letter); });
  const std::string inner = picked(a.letters, [&](char letter) { return b.has(letter) && !is_kept(letter); });
  const std::string rows = picked(a.letters, [&](char letter) { return !b.has(letter); });
  const std::string columns = picked(b.letters, [&](char letter) { return !a.has(letter); });
  const std::string letters = batch + rows + columns;
  const size_t most = static_cast<size_t>(Shape::kMaxRank);
  if (letters.size() > most || batch.size() + std::max<size_t>(1, rows.size()) + 1 > most)
    run.refuse(node, "its products have more than ", most, " axes");
  std::vector<std::string> left_groups = each_alone(batch), right_groups = left_groups;
  const auto append = [](std::vector<std::string>& groups, const std::vector<std::string>& more) {
    groups.insert(groups.end(), more.begin(), more.end());
  };
  append(left_groups, each_alone(rows));
  if (inner.empty()) {  // nothing is summed
    append(left_groups, std::vector<std::string>(columns.size()));
    append(right_groups, std::vector<std::string>(rows.size()));
    append(right_groups, each_alone(columns));
    return {mul(grouped(a, left_groups), grouped(b, right_groups)), letters};
  }
  if (rows.empty()) left_groups.emplace_back();
  left_groups.push_back(inner);
  // linear() accepts several row axes. In a matmul, all but the last are batch axes, and the other side is broadcast over them.
  const bool is_linear = batch.empty() && rows.size() > 1;
  if (!is_linear && rows.size() > 1) append(right_groups, std::vector<std::string>(rows.size() - 1));
  const bool has_inner_last = b.letters.ends_with(inner);
  append(right_groups,
         has_inner_last || is_linear ? std::vector{columns, inner} : std::vector{inner, columns});
  const Tensor factor = grouped(a, left_groups), other = grouped(b, right_groups);
  const Tensor y = is_linear ? linear(factor, other, Tensor()) : matmul(factor, other, false, has_inner_last);
  Shape shape;
  for (const char letter : letters) shape.push_back(a.has(letter) ? a.size(letter) : b.size(letter));
  return {shape == y.shape() ? y : reshape(y, shape), letters};
}

void einsum(Run& run, const NodeEntry& node) {
  const Equation equation = equation_of(run, node);
  std::map<char, int64_t> sizes;
  std::vector<Term> terms;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    const Term term{run.tensor(node, i), equation.inputs[i]};
    if (term.tensor.rank() != static_cast<int>(term.letters.size()))
      run.refuse(node, "its equation has ", term.letters.size(), " letters for input ", i, ", which is ",
                 term.tensor.shape().to_string());
    for (const char letter : term.letters) {
      const int64_t size = sizes.emplace(letter, term.size(letter)).first->second;
      if (size != term.size(letter))
        run.refuse(node, "axis '", letter, "' has the sizes ", size, " and ", term.size(letter));
    }
    terms.push_back(term);
  }
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string keep = equation.output;
    for (size_t later = i + 1; later < terms.size(); ++later) keep += terms[later].letters;
    result = contracted(run, node, result, terms[i], keep);
  }
  run.set(node, turned(summed(result, equation.output), equation.output).tensor);
}

constexpr std::array kEinsumOps = {ImportedOp{"Einsum", einsum}};

}  // namespace

std::span<const ImportedOp> einsum_ops() {
  return kEinsumOps;
}

}  // namespace dlpipe::engine::onnx
