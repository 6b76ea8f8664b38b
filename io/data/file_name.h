// What the name of a file says of it. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

namespace dlpipe::data {

/// ASCII letters in lower case.
std::string lower_text(std::string_view text);
/// The letters behind the last dot of a name, in lower case: "jpg".
std::string lower_ending(std::string_view path);
/// True for names that end like a picture's (.jpg, .png, .bmp, ...), decodable here or not.
bool has_image_name(const std::string& path);

}  // namespace dlpipe::data
