# Embeds a file's text into a C++ source as a string:
#   cmake -DSOURCE=file.cl -DNAME=kSource -DOUTPUT=file.cpp -P embed.cmake
file(READ ${SOURCE} text)
file(WRITE ${OUTPUT} "namespace convoy {\nextern const char* const ${NAME};\nconst char* const ${NAME} = R\"cl(${text})cl\";\n}\n")
