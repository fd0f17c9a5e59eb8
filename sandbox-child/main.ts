/** What every jailed child starts as. Locks its own realm and gives its last file permission back before it says ready. */

import { serve } from './program.ts';
import { lockRealm } from './realm.ts';

const realm = lockRealm();
// Node let this file itself be read; with that gone no grant is left. Absent where wall L2 is down.
process.permission?.drop?.('fs.read');
serve(realm);
