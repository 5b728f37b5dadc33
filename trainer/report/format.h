// Numbers as the reports show them to people. Pure.
#pragma once

#include <string>

namespace ddprun::trainer {

// "123456" -> "123k", "1234567" -> "1.23M": three digits that count. Non-finite: "nan", "inf".
std::string ShortNumber(double value);

// "0:42", "12:03", "3:12:03", "2d 04:00:00". Negative or non-finite: "?".
std::string Duration(double seconds);

// A loss: four decimals, or an exponent where those would say nothing.
std::string LossText(double value);

// "512 bytes", "3.41 MiB", "12 GiB".
std::string ByteText(double bytes);

// "3.00e-04"
std::string Exponent(double value);

}  // namespace ddprun::trainer
