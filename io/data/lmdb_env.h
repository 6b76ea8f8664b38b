// Writing through LMDB, behind RAII and Status; reading doesn't need it (lmdb_file.h). Included by this
// folder's .cpp files only.
#pragma once

#include <lmdb.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

struct CloseEnv {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
struct AbortTxn {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
using EnvPtr = std::unique_ptr<MDB_env, CloseEnv>;
using TxnPtr = std::unique_ptr<MDB_txn, AbortTxn>;  // release() before mdb_txn_commit

inline MDB_val value_of(std::span<const std::byte> bytes) {
  return {bytes.size(), const_cast<std::byte*>(bytes.data())};
}
inline MDB_val value_of(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}
inline MDB_val key_of(const uint64_t& number) {
  return {sizeof number, const_cast<uint64_t*>(&number)};
}
inline std::span<const std::byte> bytes_of(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}
inline std::string_view text_of(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

/// ok for 0; `what` names the step and the file. Full maps and disks become kNoSpace.
Status lmdb_status(int code, std::string_view what, const std::string& directory);

}  // namespace dlpipe::data
