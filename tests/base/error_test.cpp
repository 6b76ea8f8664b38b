#include "dlpipe/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>

namespace dlpipe {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Status(ErrorCode::kMisuse, "[test] odd");
  return value / 2;
}
Result<int> quarter(int value) {
  DLPIPE_ASSIGN_OR_RETURN(const int h, half(value));
  DLPIPE_ASSIGN_OR_RETURN(const int q, half(h));
  return q;
}

TEST(Result, CarriesValuesAndErrorsUpwards) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "[test] odd");
  EXPECT_EQ(quarter(6).status().code(), ErrorCode::kMisuse);
}

TEST(Result, AnOkStatusIsNoError) {
  const Result<int> broken = Status();
  EXPECT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().code(), ErrorCode::kInternal);
}

TEST(Status, TurnsIntoTheOneExceptionAndBack) {
  try {
    value_or_throw(half(3));
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[test] odd");
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
  }
  Status status;
  try {
    throw std::bad_alloc();
  } catch (...) {
    status = status_from_current_exception("test");
  }
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
}

TEST(Status, NamesSystemErrors) {
  const Status full = status_from_errno("x", "write a", ENOSPC);
  EXPECT_EQ(full.code(), ErrorCode::kNoSpace);
  EXPECT_EQ(full.message(), "[x] write a: No space left on device; free space there");
  EXPECT_EQ(status_from_errno("x", "open a", EACCES).code(), ErrorCode::kPermission);
  const Status status = status_from_errno("ingest", "open /no", ENOENT);
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_EQ(status.message(), "[ingest] open /no: No such file or directory");
  const Status read_only = status_from_errno("ingest", "create /mnt/a", EROFS);
  EXPECT_EQ(read_only.code(), ErrorCode::kPermission);
  EXPECT_EQ(read_only.message(), "[ingest] create /mnt/a: Read-only file system; choose another directory");
}

TEST(Status, ContextGoesInFront) {
  EXPECT_EQ(Status(ErrorCode::kIo, "b").with_context("a: ").message(), "a: b");
  EXPECT_TRUE(Status().with_context("a: ").ok());
  EXPECT_EQ(Status(ErrorCode::kIo, "[codec] cut short").with_context("[ingest] 1.jpg: ").message(),
            "[ingest] 1.jpg: cut short")
      << "one area is enough";
  EXPECT_EQ(Status(ErrorCode::kIo, "[codec] cut short").with_context("1.jpg: ").message(),
            "1.jpg: [codec] cut short");
}

}  // namespace
}  // namespace dlpipe
