#include "dlpipe/engine/core/attr_form.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "dlpipe/engine/ops/attention.h"
#include "dlpipe/engine/ops/cast.h"
#include "dlpipe/engine/ops/clip.h"
#include "dlpipe/engine/ops/concat.h"
#include "dlpipe/engine/ops/conv_pair.h"
#include "dlpipe/engine/ops/conv_transpose2d.h"
#include "dlpipe/engine/ops/conv_unit.h"
#include "dlpipe/engine/ops/cross_entropy.h"
#include "dlpipe/engine/ops/dropout.h"
#include "dlpipe/engine/ops/expand.h"
#include "dlpipe/engine/ops/layer_norm.h"
#include "dlpipe/engine/ops/matmul.h"
#include "dlpipe/engine/ops/max.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/reduction.h"
#include "dlpipe/engine/ops/reshape.h"
#include "dlpipe/engine/ops/resize.h"
#include "dlpipe/engine/ops/scale.h"
#include "dlpipe/engine/ops/slice.h"
#include "dlpipe/engine/ops/softmax.h"
#include "dlpipe/engine/ops/transpose.h"

namespace dlpipe::engine {
namespace {

// Plain data of the pipeline's, which prepares batches before any graph.
const std::set<std::string> kNotListed = {"batch_prep", "reorder"};

TEST(AttrForm, OfEveryOpGoesToAListAndBack) {
  for (const OpRow& row : op_table()) {
    const OpRecord& record = *row.record;
    if (kNotListed.contains(record.name)) continue;
    for (const OpSample& sample : record.samples()) {
      const std::vector<NamedAttr> list = list_attrs(record, sample.attrs);
      EXPECT_EQ(list_attrs(record, make_attrs(record, list)), list)
          << record.name << ": " << attrs_text(list);
    }
  }
}

/// What any field can be initialised with.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT: as an initialiser it has to convert by itself
};
template <class T, class... Initialisers>
constexpr size_t count_fields() {
  if constexpr (requires { T{Initialisers()..., Anything()}; }) {
    return count_fields<T, Initialisers..., Anything>();
  } else {
    return sizeof...(Initialisers);
  }
}
template <class T>
size_t count_listed() {
  T attrs;
  size_t count = 0;
  T::each(attrs, [&](const char*, auto&) { ++count; });
  return count;
}

struct ForgetsAField {
  std::array<int, 2> size = {1, 1};
  std::vector<int> axes;
  bool forgotten = false;
  static void each(auto& self, auto&& visit) {
    visit("size", self.size);
    visit("axes", self.axes);
  }
};

/// A struct of attributes.
struct Listed {
  const AttrForm* form;
  size_t fields, listed;
};
template <class... Structs>
std::vector<Listed> all_listed() {
  return {{&attr_form<Structs>, count_fields<Structs>(), count_listed<Structs>()}...};
}

// A list that goes there and back has no place for what isn't in it.
TEST(AttrForm, ListsEveryFieldOfEveryStruct) {
  EXPECT_EQ(count_fields<ForgetsAField>(), 3U);
  EXPECT_EQ(count_listed<ForgetsAField>(), 2U);
  const std::vector<Listed> structs =
      all_listed<AttentionAttrs, BatchNormAttrs, CastAttrs, ClipAttrs, ConcatAttrs, Conv2dAttrs,
                 ConvPairAttrs, ConvTranspose2dAttrs, ConvUnitAttrs, CrossEntropyAttrs, DropoutAttrs,
                 ExpandAttrs, LayerNormAttrs, LinearAttrs, MatmulAttrs, MaxAttrs, Pool2dAttrs, ReductionAttrs,
                 ReshapeAttrs, ResizeAttrs, ScaleAttrs, SliceAttrs, SoftmaxAttrs, TransposeAttrs>();
  for (const OpRow& row : op_table()) {
    const std::string_view name = row.record->name;
    if (row.record->attr_form == nullptr || name == "elementwise_chain") continue;  // a form of its own
    const auto found = std::ranges::find(structs, row.record->attr_form, &Listed::form);
    ASSERT_NE(found, structs.end()) << name << ": its struct of attributes is missing above";
    const size_t unlisted = name == "dropout" ? 1 : 0;  // the key that a device holds while it runs
    EXPECT_EQ(found->listed + unlisted, found->fields) << name;
  }
}

TEST(AttrForm, SamplesOfEveryOpHaveAsManyInputsAsItsRecordSays) {
  for (const OpRow& row : op_table()) {
    for (const OpSample& sample : row.record->samples()) {
      EXPECT_GE(sample.inputs.size(), row.record->input_count.least) << row.record->name;
      EXPECT_LE(sample.inputs.size(), row.record->input_count.most) << row.record->name;
    }
  }
}

void expect_refused(const std::vector<NamedAttr>& list, const std::string& words) {
  const OpRecord& record = *value_or_throw(OpRegistry::builtin().find("conv2d"))->record;
  try {
    make_attrs(record, list);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(AttrForm, RefusesAListOfOtherAttributes) {
  const OpRecord& record = *value_or_throw(OpRegistry::builtin().find("conv2d"))->record;
  const std::vector<NamedAttr> good = list_attrs(record, Conv2dAttrs{.stride = {2, 1}});
  EXPECT_EQ(attrs_text(good), "stride=[2,1] padding=[0,0] dilation=[1,1] groups=1 activation=none");
  expect_refused({}, "[conv2d] attribute 'stride' is missing");
  std::vector<NamedAttr> bad = good;
  bad[0].value = std::vector<int64_t>{1};
  expect_refused(bad, "[conv2d] expected two integers as attribute 'stride'");
  bad = good;
  bad[3].value = int64_t{1} << 40;
  expect_refused(bad, "expected an integer in its range as attribute 'groups'");
  bad = good;
  bad[4].value = std::string("sine");
  expect_refused(bad, "as attribute 'activation'");
  bad = good;
  bad.push_back({"colour", true});
  expect_refused(bad, "[conv2d] has no attribute 'colour'");
}

}  // namespace
}  // namespace dlpipe::engine
