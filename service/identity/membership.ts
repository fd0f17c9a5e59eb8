/** What this process says about itself when it joins the cluster of its database. */
import type { Member } from '../../db/cluster/cluster-record.ts';
import { openBlobFolder } from '../../db/files/blob-mark.ts';
import { RELEASE } from '../settings/release.ts';
import type { SharedSettings } from '../settings/settings.ts';

export const describeMember = ({ DATA_DIR, OIDC_ISSUER }: SharedSettings): Member => ({
  dataDir: DATA_DIR,
  release: RELEASE,
  signsTokens: OIDC_ISSUER === undefined,
  blobs: openBlobFolder(DATA_DIR),
});
