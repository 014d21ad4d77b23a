#include "pg/sequence.hpp"

namespace baton::pg {

Oid sequence_of(Oid table, AttrNumber column) {
    return call([&] {
        const List* const owned = getOwnedSequences(table);
        const ListCell* cell = nullptr;
        foreach (cell, owned) {
            Oid owner = InvalidOid;
            int32 owner_column = 0;
            for (const char tie : {DEPENDENCY_INTERNAL, DEPENDENCY_AUTO})  // an identity, or OWNED BY
                if (sequenceIsOwned(lfirst_oid(cell), tie, &owner, &owner_column) && owner == table &&
                    owner_column == column)
                    return lfirst_oid(cell);
        }
        return InvalidOid;
    });
}

std::int64_t last_value(Oid sequence) {
    return call([&] {
        const Relation relation = relation_open(sequence, AccessShareLock);
        const Buffer buffer = ReadBuffer(relation, 0);
        LockBuffer(buffer, BUFFER_LOCK_SHARE);
        const Page page = BufferGetPage(buffer);
        auto* const row =
            reinterpret_cast<HeapTupleHeader>(PageGetItem(page, PageGetItemId(page, FirstOffsetNumber)));
        const auto* const data = reinterpret_cast<const FormData_pg_sequence_data*>(
            reinterpret_cast<const char*>(row) + row->t_hoff);
        const std::int64_t last = data->last_value - (data->is_called ? 0 : 1);
        UnlockReleaseBuffer(buffer);
        relation_close(relation, NoLock);  // the lock stays: the next row asks again
        return last;
    });
}

}  // namespace baton::pg
