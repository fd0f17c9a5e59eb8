/** Names the REST responses that commands read. */
import type { components } from '../rest/schema.d.ts';

type Schemas = components['schemas'];
/** Without the named fields where a service of an earlier version answers. */
type FieldsMayBeAbsent<Whole, Name extends keyof Whole> = Omit<Whole, Name> & Partial<Pick<Whole, Name>>;

export type Account = Schemas['Account'];
export type Agent = Schemas['Agent'];
export type CatalogEntry = FieldsMayBeAbsent<Schemas['CatalogEntry'], 'versionsTruncated'>;
export type Channel = FieldsMayBeAbsent<Schemas['Channel'], 'agentId'>;
export type Delivery = Schemas['Delivery'];
export type DeliveryDetail = Schemas['DeliveryDetail'];
export type Discovered = Schemas['Discovered'];
export type Installation = Schemas['Installation'];
export type Plugin = Schemas['Plugin'];
export type PluginDetail = Omit<FieldsMayBeAbsent<Schemas['PluginDetail'], 'leftOutVersions'>, 'versions'> & {
  readonly versions: readonly Version[];
};
export type Reach = Installation['reach'][number];
export type SecretField = Schemas['ConfigurationFields']['secrets'][number];
export type StoredKind = Schemas['StoredKind'];
export type Token = Schemas['Token'];
export type UpdateChanges = Schemas['UpdateChanges'];
export type Version = FieldsMayBeAbsent<Schemas['Version'], 'settings' | 'requiredFields'>;
