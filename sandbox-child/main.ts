/** Entry of every jailed child: locks the realm, drops the last file permission, and serves. */

import { serve } from './program.ts';
import { lockRealm } from './realm.ts';

const realm = lockRealm();
// Node grants reading this file; after the drop no grant is left. `process.permission` is absent when wall L2 is down.
process.permission?.drop?.('fs.read');
serve(realm);
