# cmake -DSOURCE=file.cl -DNAME=kSource -DOUTPUT=file.cpp -P embed.cmake: the file's text as a C++ string.
file(READ ${SOURCE} text)
file(WRITE ${OUTPUT} "namespace convoy {\nextern const char* const ${NAME};\nconst char* const ${NAME} = R\"cl(${text})cl\";\n}\n")
