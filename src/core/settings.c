/* The settings that a caller starts from. Zero means "choose for me" in every field, so that a struct that was zeroed by hand
 * says the same as plim_settings_default; the function exists for the day when that is no longer true. */
#include "core/error.h"

plim_settings plim_settings_default(void)
{
    return (plim_settings){0};
}
