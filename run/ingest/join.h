// `dlpipe join DST PART...` as a function: one dataset of the parts that `dlpipe ingest --part` made, with the bytes that
// one ingest of all of them gives. Records are copied as they are stored; nothing is decoded or compressed again.
//
// All parts must be there, once, and of the same files and options; others are refused by name before anything is written.
// A part's table of headers is compared with its id, and each record with its checksum, on the way. Of links (`ingest
// --store link`) the pictures are not read; parts whose links begin at other places are refused.
// As an ingest, a join is written into DST.partial, goes on where it was when it is called again, and gives the same bytes
// then. The parts are only read, and stay.
//
// Threads: as ingest(). Memory: the parts' tables of headers lie in files; one transaction.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/run/ingest/ingest.h"

namespace dlpipe::ingest {

struct JoinOptions {
  std::string destination;                             // DST: must not exist
  std::vector<std::string> parts;                      // directories, in any order
  std::function<void(const std::string&)> on_warning;  // of what the parts together show
  std::function<bool()> stop_requested;
};

Result<IngestReport> join(const JoinOptions& options,
                          const std::function<void(const IngestProgress&)>& progress = {});

}  // namespace dlpipe::ingest
