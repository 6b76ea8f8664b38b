// libjpeg's verdicts on damage. It warns, and goes on, both where a header says something odd and where bits of the picture are
// missing; only the second kind leaves pixels that nobody drew.
#pragma once

// jpeglib.h needs stdio's FILE and size_t before it.
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

namespace dlpipe::data {

/// Whether a warning leaves every pixel what the file's own bits say: a revision of JFIF or a transform of Adobe's that libjpeg
/// doesn't know, limits of a sequential scan that it doesn't use, and bytes that belong to nothing, between segments or behind a scan
/// that is complete. All others are about bits that are wrong or missing.
inline bool keeps_pixels(int message_code) {
  return message_code == JWRN_JFIF_MAJOR || message_code == JWRN_ADOBE_XFORM ||
         message_code == JWRN_NOT_SEQUENTIAL || message_code == JWRN_EXTRANEOUS_DATA;
}

}  // namespace dlpipe::data
