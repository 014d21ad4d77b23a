# The brokers of this build: every folder of src/brokers, without those that BATON_WITHOUT names. The tests need all of them:
# leave some out with -DBUILD_TESTING=OFF only.

set(BATON_WITHOUT "" CACHE STRING "brokers to leave out, as in kafka;mqtt")
file(GLOB broker_folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/brokers/*/CMakeLists.txt)
set(BATON_BROKERS "")
foreach(file ${broker_folders})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(name ${folder} NAME)
  if(NOT name IN_LIST BATON_WITHOUT)
    list(APPEND BATON_BROKERS ${name})
  endif()
endforeach()
