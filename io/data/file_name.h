// What a file's name says about the file. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

namespace dlpipe::data {

/// Converts ASCII letters to lower case.
std::string lower_text(std::string_view text);
/// The part after the last dot of a name, in lower case: "jpg".
std::string lower_ending(std::string_view path);
/// True for names with the ending of an image (.jpg, .png, .bmp, ...), whether or not it can be decoded.
bool has_image_name(const std::string& path);

}  // namespace dlpipe::data
