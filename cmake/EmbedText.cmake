# cmake -D INPUT=FILE -D OUTPUT=FILE.cc -D HEADER=FILE.h -D NAME=ddprun::kName -P EmbedText.cmake
#
# Writes a source that defines the std::string_view NAME, which HEADER declares, as INPUT's text.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

constexpr std::string_view ${NAME} = R\"__text__(${text})__text__\";
")
