#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "trainer/data/transform_image.h"

// After <cstdio>, which it needs and does not include.
#include <jpeglib.h>
#include <png.h>

namespace ddprun::trainer {

namespace {

// Pillow's limit. A larger image is an attack or a mistake.
constexpr int64_t kMaxPixels = 178956970;

Error Broken(const std::string& reason) {
  Error error;
  error.title = "IMAGE CANNOT BE DECODED";
  error.what = reason;
  return error;
}

Result<Image> MakeImage(int64_t height, int64_t width) {
  if (height * width > kMaxPixels) {
    return Broken("it has " + std::to_string(width) + " x " + std::to_string(height) +
                  " pixels, more than " + std::to_string(kMaxPixels));
  }
  Image image{.height = height, .width = width, .pixels = {}};
  image.pixels.resize(static_cast<size_t>(height * width * 3));
  return image;
}

// Both libraries report errors by calling a function that must not return, so it jumps back to the
// reader. The code makes no object with a destructor between the setjmp and the jump.
struct JpegErrors {
  jpeg_error_mgr manager;  // the first member, because libjpeg knows only this part
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
  bool corrupt = false;  // libjpeg has warned and continued with invented pixels
};

JpegErrors& ErrorsOf(j_common_ptr info) {
  return *reinterpret_cast<JpegErrors*>(info->err);
}

[[noreturn]] void OnJpegError(j_common_ptr info) {
  JpegErrors& errors = ErrorsOf(info);
  (*info->err->format_message)(info, errors.message);
  std::longjmp(errors.back, 1);
}

void OnJpegMessage(j_common_ptr info, int level) {
  JpegErrors& errors = ErrorsOf(info);
  if (level >= 0 || errors.corrupt) return;
  errors.corrupt = true;
  (*info->err->format_message)(info, errors.message);
}

// Reads the header (`image` is nullptr) or all pixels. Returns false on errors, see errors.message.
bool ReadJpeg(std::string_view file,
              jpeg_decompress_struct& info,
              JpegErrors& errors,
              Image* image) {
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = OnJpegError;
  errors.manager.emit_message = OnJpegMessage;
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  if (image != nullptr) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = image->pixels.data() + size_t{info.output_scanline} * info.output_width * 3;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return !errors.corrupt;
}

Result<Image> DecodeJpeg(std::string_view file) {
  jpeg_decompress_struct info = {};
  JpegErrors errors = {};
  if (!ReadJpeg(file, info, errors, nullptr)) return Broken(errors.message);
  if (info.num_components == 4) return Broken("it is a JPEG in CMYK; RGB or grey was expected");
  DDPRUN_ASSIGN(Image image, MakeImage(info.image_height, info.image_width));
  if (!ReadJpeg(file, info, errors, &image)) return Broken(errors.message);
  return image;
}

struct PngReader {
  std::string_view rest;
  std::jmp_buf back;
  char message[200] = {};
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void OnPngError(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, message, sizeof(reader.message) - 1);
  std::longjmp(reader.back, 1);
}

void OnPngWarning(png_structp /*png*/, png_const_charp /*message*/) {}

void ReadPngBytes(png_structp png, png_bytep to, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader.rest.size() < count) png_error(png, "the file ends in the middle");
  std::memcpy(to, reader.rest.data(), count);
  reader.rest.remove_prefix(count);
}

bool ReadPngHeader(PngReader& reader) {
  if (setjmp(reader.back) != 0) return false;
  png_set_read_fn(reader.png, &reader, ReadPngBytes);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);
  png_set_strip_alpha(reader.png);
  png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  if (png_get_rowbytes(reader.png, reader.info) !=
      size_t{png_get_image_width(reader.png, reader.info)} * 3) {
    png_error(reader.png, "its pixels cannot be made RGB");
  }
  return true;
}

bool ReadPngRows(PngReader& reader, png_bytep* rows) {
  if (setjmp(reader.back) != 0) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

Result<Image> DecodePng(std::string_view file) {
  PngReader reader;
  reader.rest = file;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, OnPngError, OnPngWarning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return Broken("there is no memory for it");
  if (!ReadPngHeader(reader)) return Broken(reader.message);
  const int64_t height = png_get_image_height(reader.png, reader.info);
  const int64_t width = png_get_image_width(reader.png, reader.info);
  DDPRUN_ASSIGN(Image image, MakeImage(height, width));
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) rows[y] = image.pixels.data() + y * width * 3;
  if (!ReadPngRows(reader, rows.data())) return Broken(reader.message);
  return image;
}

}  // namespace

Result<Image> DecodeImage(std::string_view file) {
  if (file.empty()) return Broken("the file is empty");
  if (file.starts_with("\xff\xd8\xff")) return DecodeJpeg(file);
  if (file.starts_with("\x89PNG\r\n\x1a\n")) return DecodePng(file);
  return Broken("it is neither a JPEG nor a PNG file");
}

}  // namespace ddprun::trainer
