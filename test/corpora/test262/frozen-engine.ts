/** Runs cases of Test262 in plain Node whose intrinsics are frozen, to find those that need to change them. */
import { constants, createContext, runInContext } from 'node:vm';
import { FREEZE_SHARED } from '../../sandbox-child/intrinsics-walk.ts';
import { serveCases } from './serve-cases.ts';

serveCases((source, globals) => {
  const context = createContext(constants.DONT_CONTEXTIFY);
  Object.assign(context, { setTimeout, clearTimeout, ...globals });
  runInContext(FREEZE_SHARED, context);
  runInContext(source, context);
});
