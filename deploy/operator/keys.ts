/** Operator command that rotates the key of stored secrets. */
import { rotateKey as rotate } from '../../db/files/key-rotation.ts';
import { openSecretKeys } from '../../db/files/secrets.ts';
import type { OperatorCommand } from './command.ts';

export const rotateKey: OperatorCommand = {
  subjects: [],
  doc: 'create a new key and encrypt all stored secrets with it, while the service runs',
  async run(_given, place) {
    const { pool } = await place.migratedDatabase();
    const keys = await openSecretKeys(place.settings.DATA_DIR);
    const done = await rotate(pool, keys, (sealed) => place.printProgress(`${sealed} secrets sealed`));
    const begun = done.resumed ? 'Finished the interrupted rotation to key' : 'Created the key';
    return {
      sentence: `${begun} ${done.keyId} and encrypted ${done.sealed} secrets with it. The old keys stay in DATA_DIR/keys/secrets: older backups need them.`,
      fields: { ...done },
    };
  },
};
