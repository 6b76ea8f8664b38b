#include "engine/core/attr_form.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "dlpipe/ops.h"

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

struct ForgetsAField {
  std::array<int, 2> size = {1, 1};
  std::vector<int> axes;
  bool forgotten = false;
  static void each(auto& self, auto&& visit) {
    visit("size", self.size);
    visit("axes", self.axes);
  }
};

// A list that goes there and back has no place for what isn't in it.
TEST(AttrForm, ListsEveryFieldOfEveryStruct) {
  EXPECT_EQ(attr_form<ForgetsAField>.fields, 3U);
  EXPECT_EQ(attr_form<ForgetsAField>.list(ForgetsAField()).size(), 2U);
  for (const OpRow& row : op_table()) {
    const OpRecord& record = *row.record;
    if (record.attr_form == nullptr) continue;
    const size_t unlisted =
        std::string_view(record.name) == "dropout" ? 1 : 0;  // the key that a device holds while it runs
    for (const OpSample& sample : record.samples())
      EXPECT_EQ(list_attrs(record, sample.attrs).size() + unlisted, record.attr_form->fields) << record.name;
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
