#include "trainer/text/unicode.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

struct Range {
  char32_t first, last;
};

// Letters assigned in Unicode 14.1 to 16, for an ICU that does not have them yet.
constexpr Range kNewLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x1123F, 0x11240},
    {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5},
    {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x1342F, 0x1342F},
    {0x13441, 0x13446}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C},
    {0x18CFF, 0x18CFF}, {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1DF25, 0x1DF2A},
    {0x1E030, 0x1E06D}, {0x1E4D0, 0x1E4EB}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0},
    {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF}};
constexpr Range kNewNumbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9},
                                 {0x11F50, 0x11F59}, {0x16130, 0x16139}, {0x16D70, 0x16D79},
                                 {0x1CCF0, 0x1CCF9}, {0x1D2C0, 0x1D2D3}, {0x1E4F0, 0x1E4F9},
                                 {0x1E5F1, 0x1E5FA}};

constexpr char32_t kLastLetter = 0x323AF;  // of Unicode 16; no number or white space comes after it

struct LowerCaseRange {
  char32_t first, last, to;
};

// Lower case of characters of Unicode 16 and 17.
constexpr LowerCaseRange kNewLowerCase[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x0264}, {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x019B}, {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

bool In(std::span<const Range> ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

// Returns whether the character was assigned in this version of Unicode.
bool AssignedIn(char32_t c, uint8_t version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 0 && (age[0] < version || (age[0] == version && age[1] == 0));
}

uint32_t CategoryMask(char32_t c) {
  return U_GET_GC_MASK(static_cast<UChar32>(c));
}

const UNormalizer2* Nfd() {
  static const UNormalizer2* const nfd = [] {
    UErrorCode error = U_ZERO_ERROR;
    const UNormalizer2* const instance = unorm2_getNFDInstance(&error);
    DDPRUN_CHECK(U_SUCCESS(error));
    return instance;
  }();
  return nfd;
}

}  // namespace

bool IsWhiteSpace(char32_t c) {
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool IsPythonSpace(char32_t c) {
  return IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F);
}

size_t StripLeft(std::string_view text, size_t begin, size_t end, IsSpace& is_space) {
  while (end > begin) {
    size_t last = end - 1;
    while ((static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    size_t after = last;
    if (!is_space(NextCharacter(text, after))) break;
    end = last;
  }
  return end;
}

size_t StripRight(std::string_view text, size_t begin, IsSpace& is_space) {
  while (begin < text.size()) {
    size_t after = begin;
    if (!is_space(NextCharacter(text, after))) break;
    begin = after;
  }
  return begin;
}

bool IsBertPunctuation(char32_t c) {
  if (c < 0x80) return (CategoryMask(c) & (U_GC_P_MASK | U_GC_S_MASK)) != 0;
  // These two were punctuation only until Unicode 8.
  if (c == 0x166D || c == 0x111C9) return true;
  return (CategoryMask(c) & U_GC_P_MASK) != 0 && AssignedIn(c, 8);
}

bool IsBertControl(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == 0xFFFD || (CategoryMask(c) & (U_GC_CC_MASK | U_GC_CO_MASK)) != 0) return true;
  return (CategoryMask(c) & U_GC_CF_MASK) != 0 && AssignedIn(c, 8);
}

bool IsBertChinese(char32_t c) {
  static constexpr Range kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                      {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
                                      {0x2F800, 0x2FA1F}};
  return In(kBlocks, c);
}

bool IsAccent(char32_t c) {
  if (c == 0x1734) return true;  // Mc since Unicode 14
  // These have been Mn only since Unicode 9 or later.
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;
  return (CategoryMask(c) & U_GC_MN_MASK) != 0 && AssignedIn(c, 8);
}

uint8_t CombiningClass(char32_t c) {
  const uint8_t value = u_getCombiningClass(static_cast<UChar32>(c));
  return value != 0 && AssignedIn(c, 9) ? value : 0;
}

void AppendDecomposition(char32_t c, std::u32string& to) {
  std::array<UChar, 32> units;  // no decomposition has more than 4 characters
  UErrorCode error = U_ZERO_ERROR;
  const int32_t length =
      unorm2_getDecomposition(Nfd(), static_cast<UChar32>(c), units.data(), units.size(), &error);
  if (length < 0 || !AssignedIn(c, 9)) {
    to.push_back(c);
    return;
  }
  DDPRUN_CHECK(U_SUCCESS(error));
  for (int32_t at = 0; at < length;) {
    UChar32 part;
    U16_NEXT(units.data(), at, length, part);
    to.push_back(static_cast<char32_t>(part));
  }
}

void AppendLowerCase(char32_t c, std::u32string& to) {
  if (c == 0x130) {  // the only character whose lower case is two
    to.append({0x69, 0x307});
    return;
  }
  for (const LowerCaseRange& range : kNewLowerCase) {
    if (c >= range.first && c <= range.last) {
      to.push_back(range.to + (c - range.first));
      return;
    }
  }
  to.push_back(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

CharacterKind KindOf(char32_t c) {
  if (c > kLastLetter) return CharacterKind::kOther;
  if (IsWhiteSpace(c)) return CharacterKind::kSpace;
  const uint32_t category = CategoryMask(c);
  if ((category & U_GC_L_MASK) != 0 && AssignedIn(c, 16)) return CharacterKind::kLetter;
  if ((category & U_GC_N_MASK) != 0 && AssignedIn(c, 16)) return CharacterKind::kNumber;
  if (c < 0x1C80 || (category & U_GC_CN_MASK) == 0) return CharacterKind::kOther;
  if (In(kNewLetters, c)) return CharacterKind::kLetter;
  return In(kNewNumbers, c) ? CharacterKind::kNumber : CharacterKind::kOther;
}

}  // namespace ddprun::trainer
