// How files of TFRecord are called. Pure function.
#pragma once

#include <string>

namespace dlpipe::data {

/// True for .tfrecord, .tfrecords, .tfrec and NAME-00000-of-00010, each also with .gz behind it.
bool has_tfrecord_name(const std::string& path);

}  // namespace dlpipe::data
