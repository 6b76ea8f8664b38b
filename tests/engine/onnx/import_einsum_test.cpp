// Einsum, equation by equation, on numbers that can be followed by hand; numpy.einsum gives the same.
#include <gtest/gtest.h>

#include "tests/engine/onnx/one_node.h"

namespace dlpipe::engine::onnx {
namespace {

OneNode einsum(const char* equation) {
  return OneNode("Einsum").with_text("equation", equation);
}

// x is [[1,2,3],[4,5,6]].
TEST(OnnxEinsum, SumsAndTurnsOneInput) {
  expect_gives(einsum("ij->ji").input({2, 3}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_gives(einsum("ij->i").input({2, 3}), {2}, {6, 15});
  expect_gives(einsum("ij->").input({2, 3}), {}, {21});
  expect_gives(einsum("b a").input({2, 3}), {3, 2},
               {1, 4, 2, 5, 3, 6});  // without an arrow: in alphabetical order
}

// w, too, counts from 1.
TEST(OnnxEinsum, MultipliesTwoInputs) {
  expect_gives(einsum("ij,jk->ik").input({2, 3}).weights({3, 2}), {2, 2}, {22, 28, 49, 64});
  expect_gives(einsum("ij,jk").input({2, 3}).weights({3, 2}), {2, 2}, {22, 28, 49, 64});
  expect_gives(einsum("ij,kj->ki").input({2, 3}).weights({2, 3}), {2, 2}, {14, 32, 32, 77});
  expect_gives(einsum("ij,j->i").input({2, 3}).weights({3}), {2}, {14, 32});
  expect_gives(einsum("i,ij->j").input({2}).weights({2, 3}), {3}, {9, 12, 15});
  expect_gives(einsum("i,j->ij").input({2}).weights({3}), {2, 3}, {1, 2, 3, 2, 4, 6});
  expect_gives(einsum("ij,ij->ji").input({2, 3}).weights({2, 3}), {3, 2}, {1, 16, 4, 25, 9, 36});
  expect_gives(einsum("ij,ij->").input({2, 3}).weights({2, 3}), {}, {91});
  // k of the second alone, and not asked for: summed first. [[1,5],[9,..]]
  expect_gives(einsum("ij,jk->i").input({2, 3}).weights({3, 2}), {2}, {50, 113});
}

TEST(OnnxEinsum, MultipliesInBatchesAndJoinsLetters) {
  expect_gives(einsum("bij,bjk->bik").input({2, 1, 2}).weights({2, 2, 2}), {2, 1, 2}, {7, 10, 43, 50});
  expect_gives(einsum("bji,bki->bkj").input({2, 1, 2}).weights({2, 2, 2}), {2, 2, 1}, {5, 11, 39, 53});
  // Over two letters at once, and to two of the second.
  expect_gives(einsum("bij,ijk->bk").input({1, 2, 2}).weights({2, 2, 2}), {1, 2}, {50, 60});
  expect_gives(einsum("bi,ijk->bjk").input({1, 2}).weights({2, 2, 2}), {1, 2, 2}, {11, 14, 17, 20});
  // Two letters of the first beside a letter of both.
  expect_gives(einsum("xaib,xib->xab").input({1, 2, 2, 1}).weights({1, 2, 1}), {1, 2, 1}, {5, 11});
  expect_gives(einsum("xaij,xjk->xaik").input({1, 2, 1, 2}).weights({1, 2, 1}), {1, 2, 1, 1}, {5, 11});
}

TEST(OnnxEinsum, TakesMoreThanTwoInputs) {
  expect_gives(einsum("ij,jk,k->i").input({2, 3}).weights({3, 2}).input({2}), {2}, {78, 177});
}

TEST(OnnxEinsum, RefusesWhatItDoesNotKnow) {
  expect_op_refused(einsum("ii->i").input({2, 2}), "doesn't support diagonals ('i' twice");
  expect_op_refused(einsum("...i->i").input({2, 2}), "supports equations of letters, got '...i->i'");
  expect_op_refused(einsum("ij->ik").input({2, 2}), "each letter of the output once, and in an input");
  expect_op_refused(einsum("ij->ii").input({2, 2}), "each letter of the output once");
  expect_op_refused(einsum("ij,jk->ik").input({2, 2}), "is for 2 inputs, but it has 1");
  expect_op_refused(einsum("i->i").input({2, 2}), "1 letters for input 0, which is [2,2]");
  expect_op_refused(einsum("ij,jk->ik").input({2, 3}).weights({2, 2}), "axis 'j' has the sizes 3 and 2");
  expect_op_refused(einsum("abcd,efgh->abcdefgh").input({1, 1, 1, 1}).weights({1, 1, 1, 1}),
                    "more than 6 axes");
}

}  // namespace
}  // namespace dlpipe::engine::onnx
