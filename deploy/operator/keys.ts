/** A new key for the stored secrets, without a pause. */
import { rotateKey as rotate } from '../../db/files/key-rotation.ts';
import { openSecretKeys } from '../../db/files/secrets.ts';
import type { OperatorCommand } from './command.ts';

export const rotateKey: OperatorCommand = {
  subjects: [],
  doc: 'make a new key for stored secrets and seal them all with it, while everything runs',
  async run(_given, place) {
    const { pool } = await place.database();
    const keys = await openSecretKeys(place.settings.DATA_DIR);
    const done = await rotate(pool, keys, (sealed) => place.say(`${sealed} secrets sealed`));
    const begun = done.resumed ? 'The rotation that was cut off is finished' : 'There is a new key';
    return {
      sentence: `${begun}: ${done.keyId}. ${done.sealed} secrets are sealed with it. The old keys stay in DATA_DIR/keys/secrets: older backups need them.`,
      fields: { ...done },
    };
  },
};
