// baton.uuid_v7(at): the same as the SQL function of the plain form, without its detour over text.
// baton_internal.system_identifier(): the cluster's identity, which the server has read when it started.

#include "pg/guard.hpp"

BATON_FUNCTION(baton_uuid_v7);
BATON_FUNCTION(baton_system_identifier);

using namespace baton;

namespace {

constexpr std::int64_t unix_epoch_us = (std::int64_t{POSTGRES_EPOCH_JDATE} - UNIX_EPOCH_JDATE) *
                                       USECS_PER_DAY;  // between the server's epoch and 1970
constexpr std::size_t time_bytes = 6;

// Write 48 bits of milliseconds and the version and variant over random bytes.
void make_version_7(pg_uuid_t& id, TimestampTz at) {
    const std::int64_t since_1970 = at + unix_epoch_us;
    auto ms = static_cast<std::uint64_t>(since_1970 >= 0 ? since_1970 / 1000 : (since_1970 - 999) / 1000);
    for (std::size_t i = time_bytes; i-- > 0; ms >>= 8U) id.data[i] = static_cast<unsigned char>(ms & 0xFFU);
    id.data[6] = static_cast<unsigned char>((id.data[6] & 0x0FU) | 0x70U);
    id.data[8] = static_cast<unsigned char>((id.data[8] & 0x3FU) | 0x80U);
}

}  // namespace

extern "C" Datum baton_uuid_v7(PG_FUNCTION_ARGS) {
    return pg::enter([&] {
        auto* const id = static_cast<pg_uuid_t*>(pg::call([] { return palloc(sizeof(pg_uuid_t)); }));
        if (!pg_strong_random(id, sizeof *id)) throw SqlError("no random bytes are available", "XX000");
        make_version_7(*id, PG_GETARG_TIMESTAMPTZ(0));
        return UUIDPGetDatum(id);
    });
}

extern "C" Datum baton_system_identifier(PG_FUNCTION_ARGS) {
    PG_RETURN_INT64(static_cast<std::int64_t>(GetSystemIdentifier()));
}
