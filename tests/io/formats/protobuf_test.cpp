#include "io/formats/protobuf.h"

#include <gtest/gtest.h>

namespace dlpipe::formats {
namespace {

Result<std::vector<ProtobufField>> fields_of(std::string_view message) {
  std::vector<ProtobufField> fields;
  for (ProtobufReader reader(message); !reader.at_end();) {
    DLPIPE_ASSIGN_OR_RETURN(const ProtobufField field, reader.next());
    fields.push_back(field);
  }
  return fields;
}

TEST(Protobuf, ReadsWhatItWrites) {
  ProtobufWriter inner;
  inner.add_int(1, -1);
  ProtobufWriter outer;
  outer.add_int(1, 150);
  outer.add_bytes(2, "testing");
  outer.add_float(3, 0.5F);
  outer.add_message(4, inner);
  const std::vector<int64_t> ints = {3, 270, 86942};
  outer.add_ints(5, ints);
  outer.add_double(6, -0.25);
  // protobuf.dev/programming-guides/encoding: "08 96 01" and "12 07 testing".
  EXPECT_EQ(outer.bytes().substr(0, 12), std::string("\x08\x96\x01\x12\x07"
                                                     "testing"));
  const auto fields = value_or_throw(fields_of(outer.bytes()));
  ASSERT_EQ(fields.size(), 6U);
  EXPECT_EQ(fields[0].as_int(), 150);
  EXPECT_EQ(fields[1].bytes, "testing");
  EXPECT_EQ(fields[2].as_float(), 0.5F);
  EXPECT_EQ(value_or_throw(fields_of(fields[3].bytes))[0].as_int(), -1);
  std::vector<int64_t> read;
  throw_if_error(append_varints(fields[4], read));
  EXPECT_EQ(read, ints);
  EXPECT_EQ(fields[5].as_double(), -0.25);
}

TEST(Protobuf, RefusesWhatGoesPastTheEnd) {
  for (const std::string& bytes :
       {std::string("\x08"), std::string("\x08\xff"),
        std::string("\x12\x07"
                    "ab"),
        std::string("\x1d\1\2\3"), std::string("\x09\1"), std::string("\x0b"), std::string("\0", 1),
        std::string(11, '\xff'), std::string("\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f")}) {
    const auto fields = fields_of(bytes);
    ASSERT_FALSE(fields.ok());
    EXPECT_EQ(fields.status().code(), ErrorCode::kCorrupt);
    EXPECT_NE(fields.status().message().find("at byte"), std::string::npos) << fields.status().message();
  }
}

}  // namespace
}  // namespace dlpipe::formats
